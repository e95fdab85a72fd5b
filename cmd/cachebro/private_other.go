//go:build !linux

package main

import (
	"context"
)

// foreground: the terminal sends its signals to our process group.
func foreground() bool { return true }

func (s *session) runPrivate(context.Context) (began bool, err error) {
	return false, hintf("cachebro run without --private", "--private needs the namespaces of Linux")
}

func privateCommand() command {
	return command{name: "private", short: "needs Linux", run: func(context.Context, *env) error {
		return hintf("cachebro run", "namespaces need Linux")
	}}
}

package db

import (
	"fmt"
	"log/slog"
	"strings"
)

// badgerLog forwards Badger's warnings and errors and drops all other messages.
type badgerLog struct{ l *slog.Logger }

func (b badgerLog) Errorf(f string, a ...any)   { b.l.Error(line(f, a), "from", "badger") }
func (b badgerLog) Warningf(f string, a ...any) { b.l.Warn(line(f, a), "from", "badger") }
func (b badgerLog) Infof(string, ...any)        {}
func (b badgerLog) Debugf(string, ...any)       {}

func line(f string, a []any) string { return strings.TrimSpace(fmt.Sprintf(f, a...)) }

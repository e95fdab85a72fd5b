package fastpath

import (
	"os/user"
	"testing"
)

// TestPathsWithoutHome: if the environment names no home directory, the password file is used.
func TestPathsWithoutHome(t *testing.T) {
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if got := Paths(func(string) string { return "" }).Home; got != me.HomeDir {
		t.Errorf("home %q, want %q", got, me.HomeDir)
	}
}

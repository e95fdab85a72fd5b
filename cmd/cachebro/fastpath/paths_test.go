package fastpath

import (
	"os/user"
	"testing"
)

// TestPathsWithoutHome: where the environment names no home, the password file does.
func TestPathsWithoutHome(t *testing.T) {
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if got := Paths(func(string) string { return "" }).Home; got != me.HomeDir {
		t.Errorf("home %q, want %q", got, me.HomeDir)
	}
}

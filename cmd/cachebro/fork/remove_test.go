package fork

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestRemoveAllWhileFilesCome deletes a directory in which somebody still creates files, like a
// daemon that is about to end.
func TestRemoveAllWhileFilesCome(t *testing.T) {
	for round := range 20 {
		dir := filepath.Join(t.TempDir(), "fork")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for i := range 200 {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("a", i)), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		begun, ended := make(chan bool), make(chan bool)
		go func() {
			defer close(ended)
			for i := range 2000 {
				if os.WriteFile(filepath.Join(dir, fmt.Sprint("b", i)), nil, 0o600) != nil {
					return // it is gone
				}
				if i == 0 {
					close(begun)
				}
			}
		}()
		<-begun
		err := removeAll(dir)
		<-ended
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
}

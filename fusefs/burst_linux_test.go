//go:build !portable

package fusefs

import (
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// burst makes, links, exchanges, renames and removes names that nobody else uses. Every call must
// succeed, and the directory must then contain the expected names.
func burst(dir string, r *rand.Rand, stop *atomic.Bool, ops *atomic.Int64) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	at := func(n string) string { return filepath.Join(dir, n) }
	for i := 0; !stop.Load(); i++ {
		text := fmt.Sprintf("%d %d", i, r.Int63())
		put := func(name, text string, mode os.FileMode) error {
			f, err := os.OpenFile(at(name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
			if err != nil {
				return err
			}
			_, err = f.WriteString(text)
			return errors.Join(err, f.Close())
		}
		steps := []func() error{
			func() error { return put("a", text, 0o444) },
			func() error { return put("b", "b"+text, 0o644) },
			func() error { return os.Link(at("a"), at("l")) },
			func() error {
				return unix.Renameat2(unix.AT_FDCWD, at("a"), unix.AT_FDCWD, at("b"), unix.RENAME_EXCHANGE)
			},
			func() error { return os.Symlink(text, at("s")) },
			func() error { return os.Mkdir(at("d"), 0o755) },
			func() error { return os.Rename(at("a"), at("d/a")) },
			func() error { return os.Rename(at("l"), at("d/a")) },
			func() error {
				return unix.Renameat2(unix.AT_FDCWD, at("s"), unix.AT_FDCWD, at("d/s"), unix.RENAME_NOREPLACE)
			},
			func() error { return os.Rename(at("d"), at("e")) },
			func() error {
				for name, want := range map[string]string{"b": text, "e/a": text} {
					b, err := os.ReadFile(at(name))
					if err != nil || string(b) != want {
						return fmt.Errorf("round %d: %s is %q, %v; want %q", i, name, b, err, want)
					}
				}
				if to, err := os.Readlink(at("e/s")); err != nil || to != text {
					return fmt.Errorf("round %d: symlink to %q, %v", i, to, err)
				}
				return nil
			},
			func() error { return os.Remove(at("b")) },
			func() error { return os.Remove(at("e/a")) },
			func() error { return os.Remove(at("e/s")) },
			func() error { return os.Remove(at("e")) },
			func() error {
				left, err := os.ReadDir(dir)
				if err == nil && len(left) > 0 {
					err = fmt.Errorf("round %d: left over: %v", i, left)
				}
				return err
			},
		}
		for n, step := range steps {
			if err := step(); err != nil {
				return fmt.Errorf("round %d, step %d: %w", i, n, err)
			}
			ops.Add(1)
		}
	}
	return nil
}

package db

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"cachebro/store/space"
)

// A limit on file sizes was told as a damaged store, with the advice to move the history
// away.
func TestOpenErrors(t *testing.T) {
	for _, refused := range []syscall.Errno{syscall.EFBIG, syscall.EIO, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EROFS} {
		err := openError(fmt.Errorf("open memtable: %w", &fs.PathError{Op: "truncate", Path: "00001.mem", Err: refused}))
		if errors.Is(err, ErrDamaged) || !errors.Is(err, refused) {
			t.Errorf("%v is told as: %v", refused, err)
		}
	}
	if err := openError(syscall.ENOSPC); !errors.Is(err, space.ErrFull) {
		t.Errorf("a full disk is told as: %v", err)
	}
	if err := openError(errors.New("checksum mismatch")); !errors.Is(err, ErrDamaged) {
		t.Errorf("a wrong checksum is told as: %v", err)
	}
}

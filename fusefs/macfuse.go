//go:build portable || darwin

package fusefs

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// This file makes the mount options for macFUSE and parses its replies. The tag "portable" builds
// it on Linux too, for its tests.

// macOptions returns the mount options.
//
//   - fsname identifies our mounts in the mount table.
//   - noappledouble forbids the files ._NAME and .DS_Store. The mount supports extended
//     attributes, so noapplexattr is not needed.
//   - local makes Xcode and the Trash treat the mount as a disk, not a network volume.
//   - nobrowse hides the mount from the Finder's list of volumes and from Spotlight.
//   - daemon_timeout=0 allows requests that take more than a minute.
func macOptions(opt *Options) []string {
	source := opt.Source.Name()
	o := []string{
		"fsname=" + escape(fsSubtype+":"+source), "volname=" + escape(filepath.Base(source)),
		"local", "nobrowse", "noappledouble", "default_permissions", "nosuid", "nodev",
		"daemon_timeout=0", fmt.Sprintf("iosize=%d", maxRequest),
	}
	if opt.AllowOther {
		o = append(o, "allow_other")
	}
	if opt.ReadOnly {
		o = append(o, "ro")
	}
	return o
}

// maxXattr limits the size of an extended attribute that is set in pieces.
const maxXattr = 64 << 20

// readXattr reads all of an extended attribute.
func readXattr(get func(dest []byte) (int, error)) ([]byte, error) {
	n, err := get(nil)
	if err != nil || n == 0 {
		return nil, err
	}
	value := make([]byte, n)
	n, err = get(value)
	return value[:max(n, 0)], err
}

// piece copies an extended attribute, from position on, to dest and returns the number of bytes. If
// dest is empty, it returns the number available.
func piece(position uint32, dest []byte, get func(dest []byte) (int, error)) (int, error) {
	value, err := readXattr(get)
	if err != nil {
		return 0, err
	}
	rest := value[min(int(position), len(value)):]
	switch {
	case len(dest) == 0:
		return len(rest), nil
	case len(rest) > len(dest):
		return 0, unix.ERANGE
	}
	return copy(dest, rest), nil
}

// patched returns an extended attribute's value in which data replaces the bytes at position. The
// system calls on descriptors can only set the whole value.
func patched(position uint32, data []byte, get func(dest []byte) (int, error)) ([]byte, error) {
	if int64(position)+int64(len(data)) > maxXattr {
		return nil, unix.E2BIG
	}
	value, err := readXattr(get)
	if err != nil && status(err) != fuse.ENOATTR {
		return nil, err
	}
	if more := int(position) + len(data) - len(value); more > 0 {
		value = append(value, make([]byte, more)...)
	}
	copy(value[position:], data)
	return value, nil
}

// Hints for problems with macFUSE.
var (
	errMacFUSE = errors.New("macFUSE is not installed, so nothing can be mounted (reads, hooks and search work without it): " +
		"brew install --cask macfuse, or https://macfuse.github.io")
	errExtension = errors.New("macOS does not let macFUSE's kernel extension run: " +
		"allow it in System Settings, Privacy & Security, and restart (on Apple silicon, first choose reduced security in the recovery system)")
	errFSKit = errors.New("this macFUSE has only its FSKit backend, which gives cachebro no device descriptor: " +
		"enable the kernel backend (macFUSE in System Settings), and mount again")
)

// macError makes one error from the mount program's output and exit status.
func macError(said string, err error) error {
	msg := strings.Join(strings.Fields(said), " ")
	low := strings.ToLower(msg)
	has := func(any ...string) bool {
		for _, s := range any {
			if strings.Contains(low, s) {
				return true
			}
		}
		return false
	}
	switch {
	case has("fskit", "file system extension", "file system module"):
		return fmt.Errorf("%w (%s)", errFSKit, msg)
	case has("kernel extension", "not loaded", "failed to load", "could not be loaded", "system extension", "file system is not available"):
		return fmt.Errorf("%w (%s)", errExtension, msg)
	case has("busy", "already mounted", "itself on a macfuse volume", "itself on a osxfuse volume"):
		return fmt.Errorf("%w: %s", ErrBusy, msg)
	case msg == "":
		return err
	}
	return fmt.Errorf("%s: %w", msg, err)
}

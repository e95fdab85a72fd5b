//go:build !linux

package displace

import (
	"errors"
	"io/fs"
	"os"
)

// Held is a file that is to be displaced; here others cannot be kept off.
type Held struct {
	file   *os.File
	info   fs.FileInfo
	leased bool // never
}

// Hold leaves f to Release.
func Hold(f *os.File) (*Held, error) {
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return &Held{file: f, info: fi}, nil
}

// Asked is not known here.
func (h *Held) Asked() bool { return false }

func (h *Held) unlock() {}

func idle(*os.File) bool { return true }

var errHere = errors.New("this system has no such rename")

func exchange(*os.File, string, string) error { return errHere }
func move(*os.File, string, string) error     { return errHere }

func cannot(err error) bool { return err == errHere }

// Overlay: nothing special is known of any directory here.
func Overlay(string) bool { return false }

// Writers is not known here.
func Writers(fs.FileInfo) string { return "" }

package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"cachebro/fusefs/mounts"
	"cachebro/store/leaf/ignore"
	"cachebro/store/wire"
)

// Config describes one mount. Each process of the mount passes it to the next as flags.
type Config struct {
	Root       string // the project's root: an absolute path without symbolic links
	Mountpoint string // equal to Root when InPlace
	State      string // the state directory, which exists
	AllowOther bool
	ReadOnly   bool
	Private    bool // the mount is in a private mount namespace, so processes outside it write directly to the source

	Exe     string     // path of this program
	Version string     // of cachebro
	Env     []string   // environment of the processes that are started
	Paths   wire.Paths // where sockets and state are
	// NoCommands means that the command lines of processes are not recorded.
	NoCommands bool
	Ignore     ignore.Options // for mountd: ignore rules in addition to the project's own
}

// InPlace reports whether the mount covers its own source.
func (c Config) InPlace() bool { return c.Mountpoint == c.Root }

// Hidden returns the state directory relative to the root if it is inside the root, otherwise "".
// The overlay hides this directory.
func (c Config) Hidden() string {
	if c.State != c.Root && mounts.Within(c.State, c.Root) {
		return mounts.Rel(c.State, c.Root)
	}
	return ""
}

// args returns the flags that describe the mount to a sub-process.
func (c Config) args(sub string) []string {
	a := []string{"cachebro", sub, "--mountpoint", c.Mountpoint, "--root", c.Root, "--state", c.State}
	for flag, on := range map[string]bool{"--allow-other": c.AllowOther, "--read-only": c.ReadOnly, "--private": c.Private} {
		if on {
			a = append(a, flag)
		}
	}
	return a
}

// Report is the message, in one line of JSON, that a process writes to the process that started it.
// It reports that the mount answers, or why there is no mount.
type Report struct {
	OK      bool          `json:"ok"`
	PID     int           `json:"pid,omitempty"` // of mountd
	Code    string        `json:"code,omitempty"`
	Error   string        `json:"error,omitempty"`
	Hint    string        `json:"hint,omitempty"`
	Outside []mounts.Proc `json:"outside,omitempty"` // processes that use the source directly, and mounts that lead to it
	Shared  string        `json:"shared,omitempty"`  // type of the file system, if other machines can change it
}

// Err returns nil if the mount answers, otherwise the reported error.
func (r Report) Err() error {
	if r.OK {
		return nil
	}
	return &wire.Error{Code: r.Code, Message: r.Error, Hint: r.Hint}
}

func failure(err error) Report {
	e := wire.AsError(err)
	r := Report{Code: e.Code, Error: e.Message, Hint: e.Hint}
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		r.Hint = h.Hint()
	} else if e.Code == wire.ErrInternal.Code {
		r.Hint = ""
	}
	return r
}

func (r Report) send(w io.Writer) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// Receive waits for the Report. If the process ends without sending one, the returned Report
// contains an error.
func Receive(r io.Reader, log string) Report {
	var rep Report
	if err := json.NewDecoder(r).Decode(&rep); err != nil {
		return Report{Code: wire.ErrInternal.Code, Error: "the mount's process ended before the mount answered", Hint: "see " + log}
	}
	return rep
}

// Record describes a mount and the processes that serve it. A Record is stored in
// <state>/mount.json.
type Record struct {
	PID        int       `json:"mountd_pid"`
	Supervisor int       `json:"supervisor_pid"`
	Mountpoint string    `json:"mountpoint"`
	MountID    int       `json:"mount_id"` // in /proc/self/mountinfo
	Dev        string    `json:"dev"`      // name of the FUSE connection
	Since      time.Time `json:"since"`
	Version    string    `json:"version"`
	// Replaceable means that another mountd can take over without being noticed.
	Replaceable bool `json:"replaceable"`
	// Replaced counts how often another mountd has taken over.
	Replaced int `json:"replaced"`
	// Unmounted means that the mount was unmounted at its mountpoint, but mountd still serves
	// copies in other mount namespaces and processes that are inside. The spool has the content of
	// all closed files.
	Unmounted bool `json:"unmounted,omitempty"`
}

// Crash describes how a mount ended unexpectedly.
type Crash struct {
	Time       time.Time     `json:"time"`
	Mountpoint string        `json:"mountpoint"`
	How        string        `json:"how"`    // "signal: killed"
	Inside     []mounts.Proc `json:"inside"` // processes inside the mount, which must cd
}

const (
	recordFile = "mount.json"
	crashFile  = "crash.json"
)

// ReadRecord returns the record of the project's mount, which may have ended since.
func ReadRecord(state string) (Record, bool) {
	var r Record
	return r, wire.ReadJSON(filepath.Join(state, recordFile), &r) == nil
}

// ReadCrash returns how the last mount ended. It returns false if that mount did not end
// unexpectedly.
func ReadCrash(state string) (Crash, bool) {
	var c Crash
	return c, wire.ReadJSON(filepath.Join(state, crashFile), &c) == nil
}

func remove(name string) {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintln(os.Stderr, err)
	}
}

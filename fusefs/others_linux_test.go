//go:build !portable

package fusefs

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// A file that a caller creates belongs to the caller. The caller's umask applies, and the group is
// the one that the directory passes on, as if the file had been created directly in the source.
func TestOwnersOfNewFiles(t *testing.T) {
	needRoot(t)
	f := mountTest(t, nil)
	open2All(t, f)
	f.under(fmt.Sprintf("mkdir mine shared closed; chown %d mine; chgrp %d shared; chmod 2775 shared; chmod 700 closed", someUser, someGroup))
	script := `umask 027; cd DIR; touch a; mkdir b; ln -s x c; mkfifo d; python3 -c "
import socket; socket.socket(socket.AF_UNIX).bind('e')" ; stat -c '%n %u %g %a' a b c d e`
	for _, dir := range []string{"mine", "shared"} {
		on, err := f.as(strings.ReplaceAll(script, "DIR", dir))
		if err != nil {
			t.Fatalf("%v\n%s", err, on)
		}
		f.under("rm -r " + dir + "/*")
		// Run the same script in the source.
		cmd := exec.Command("bash", "-ec", "cd -P /proc/self/fd/3; "+strings.ReplaceAll(script, "DIR", dir))
		src, err := os.Open(f.src)
		if err != nil {
			t.Fatal(err)
		}
		cmd.ExtraFiles = []*os.File{src}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: someUser, Gid: someUser, Groups: []uint32{someGroup}}}
		under, err := cmd.CombinedOutput()
		src.Close()
		if err != nil {
			t.Fatalf("%v\n%s", err, under)
		}
		if on != string(under) {
			t.Errorf("%s: mount:\n%ssource:\n%s", dir, on, under)
		}
	}
	for _, script := range []string{"ls closed", "touch closed/a", "touch a", "rm -r mine", "echo x > /proc/self/cwd/../project/z"} {
		if out, err := f.as(script); err == nil {
			t.Errorf("%s was allowed: %s", script, out)
		}
	}
}

// An ordinary user's write clears the set-user-id bit, even if root serves the mount.
func TestWriteClearsSetID(t *testing.T) {
	needRoot(t)
	f := mountTest(t, nil)
	open2All(t, f)
	for _, how := range []string{"echo x >> a", "echo x > a", "truncate -s 1 a", `python3 -c "import os; os.truncate('a', 0)"`} {
		f.sh(fmt.Sprintf("echo old > a; chown %d:%d a; chmod 6775 a", 1, someGroup))
		if out, err := f.as(how); err != nil {
			t.Fatalf("%s: %v\n%s", how, err, out)
		}
		if got := f.sh("stat -c %a a"); got != "775\n" {
			t.Errorf("%s: mode %s", how, got)
		}
	}
	f.sh("echo old > a; chmod 6775 a; echo x >> a")
	if got := f.sh("stat -c %a a"); got != "6775\n" {
		t.Errorf("root's write: mode %s", got)
	}
}

// Access control lists of the source are shown and enforced on the mount.
func TestACL(t *testing.T) {
	needRoot(t)
	if _, err := exec.LookPath("setfacl"); err != nil {
		t.Skip("no setfacl")
	}
	f := mountTest(t, nil)
	open2All(t, f)
	f.sh(fmt.Sprintf("mkdir d; chmod 700 d; setfacl -m u:%d:rwx -d -m u:%d:rw,g::r,o::- d; echo x > a; chmod 600 a; setfacl -m u:%d:r a", someUser, someUser, someUser))
	if out, err := f.as("cat a; echo y > d/b; cat d/b"); err != nil || out != "x\ny\n" {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := f.as("echo z > a"); err == nil {
		t.Error("wrote what may only be read")
	}
	if on, under := f.sh("umask 077; touch d/c; getfacl -n d d/b d/c a"), f.under("getfacl -n d d/b d/c a"); on != under || !strings.Contains(on, fmt.Sprintf("default:user:%d:rw", someUser)) {
		t.Errorf("mount:\n%ssource:\n%s", on, under)
	}
}

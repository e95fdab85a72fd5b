package mcp

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"cachebro/store/leaf/text"

	"golang.org/x/sys/unix"
)

func TestEditKeepsWhatAFileIs(t *testing.T) {
	dir := project(t, files{"run.sh": "#!/bin/sh\necho one\n", "crlf.txt": "one\r\ntwo\r\n", "hard": "same\n", "latin": "caf\xe9 one\n", "t/real": "one\n"})
	if err := os.Chmod(dir+"/run.sh", 0o4755); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(dir+"/hard", dir+"/hard2"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("t/real", dir+"/rel"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir+"/t/real", dir+"/abs"); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		if err := os.Chown(dir+"/crlf.txt", 1234, 4321); err != nil {
			t.Fatal(err)
		}
	}
	xerr := unix.Setxattr(dir+"/run.sh", "user.note", []byte("kept"), 0)
	if err := os.Chmod(dir+"/run.sh", 0o4755&0o777|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	p := connect(t, Options{Root: dir, Profile: ProfileAll})
	edit := func(path, old, new string) {
		t.Helper()
		p.ok("edit_file", map[string]any{"path": path, "old_string": old, "new_string": new})
	}
	edit("run.sh", "one", "two")
	fi, err := os.Stat(dir + "/run.sh")
	if err != nil {
		t.Fatal(err)
	}
	if fi.Mode() != 0o755 { // the old content had the set-user-ID bit, but the new one must not
		t.Errorf("mode %v", fi.Mode())
	}
	if xerr == nil {
		val := make([]byte, 10)
		if n, err := unix.Getxattr(dir+"/run.sh", "user.note", val); err != nil || string(val[:n]) != "kept" {
			t.Errorf("extended attribute: %q, %v", val[:max(n, 0)], err)
		}
	}
	edit("crlf.txt", "one\ntwo", "1\n2")
	if got := read(t, dir+"/crlf.txt"); got != "1\r\n2\r\n" {
		t.Errorf("line ends: %q", got)
	}
	if os.Getuid() == 0 {
		fi, err := os.Stat(dir + "/crlf.txt")
		if err != nil {
			t.Fatal(err)
		}
		if st := fi.Sys().(*syscall.Stat_t); st.Uid != 1234 || st.Gid != 4321 {
			t.Errorf("owner %d:%d", st.Uid, st.Gid)
		}
	}
	edit("hard", "same", "both")
	if read(t, dir+"/hard2") != "both\n" {
		t.Error("a hard link was cut")
	}
	edit("latin", "one", "two")
	if read(t, dir+"/latin") != "caf\xe9 two\n" {
		t.Errorf("bytes around an edit changed: %q", read(t, dir+"/latin"))
	}
	edit("rel", "one", "two")
	edit("abs", "two", "three")
	if read(t, dir+"/t/real") != "three\n" {
		t.Errorf("through symlinks: %q", read(t, dir+"/t/real"))
	}
	for _, l := range []string{"rel", "abs"} {
		if fi, err := os.Lstat(dir + "/" + l); err != nil || fi.Mode()&os.ModeSymlink == 0 {
			t.Errorf("%s is no symlink any more", l)
		}
	}
	p.ok("edit_file", map[string]any{"path": "t/real", "old_string": "e", "new_string": "E", "replace_all": true})
	if read(t, dir+"/t/real") != "thrEE\n" {
		t.Errorf("replace_all: %q", read(t, dir+"/t/real"))
	}
}

func TestWriteFile(t *testing.T) {
	dir := project(t, files{"a.txt": "a\n"})
	old := syscall.Umask(0o027)
	defer syscall.Umask(old)
	p := connect(t, Options{Root: dir, Profile: ProfileAll})
	got := p.ok("write_file", map[string]any{"path": "new/deep/f.txt", "content": "1\n2\n", "expected_hash": "absent"})
	if !strings.HasPrefix(got, "created new/deep/f.txt · 2 lines, 4 bytes · hash "+text.Hash([]byte("1\n2\n"))[:12]) {
		t.Errorf("says %q", got)
	}
	if fi, err := os.Stat(dir + "/new/deep/f.txt"); err != nil || fi.Mode() != 0o640 {
		t.Errorf("new file: %v %v", fi, err)
	}
	before, _ := os.Stat(dir + "/a.txt")
	if got := p.ok("write_file", map[string]any{"path": "a.txt", "content": "a\n"}); !strings.Contains(got, "already has exactly") {
		t.Errorf("says %q", got)
	}
	if after, _ := os.Stat(dir + "/a.txt"); !after.ModTime().Equal(before.ModTime()) || !os.SameFile(before, after) {
		t.Error("a file that did not change was written")
	}
	p.ok("write_file", map[string]any{"path": "a.txt", "content": "b\n", "expected_hash": "sha256:" + text.Hash([]byte("a\n"))})
	if read(t, dir+"/a.txt") != "b\n" {
		t.Errorf("content %q", read(t, dir+"/a.txt"))
	}
	name := strings.Repeat("n", 255)
	p.ok("write_file", map[string]any{"path": name, "content": "long\n"})
	p.ok("edit_file", map[string]any{"path": name, "old_string": "long", "new_string": "short"})
	if left, _ := filepath.Glob(dir + "/.*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	big := strings.Repeat("0123456789abcde\n", 1<<17) // 2 MiB, one message
	p.ok("write_file", map[string]any{"path": "big", "content": big})
	if read(t, dir+"/big") != big {
		t.Error("large content differs")
	}
}

// Two concurrent edits of one file must both take effect, even if they use different names of it.
func TestParallelEdits(t *testing.T) {
	var b strings.Builder
	for i := range 40 {
		fmt.Fprintf(&b, "line%02d\n", i)
	}
	dir := project(t, files{"f": b.String()})
	if err := os.Symlink("f", dir+"/g"); err != nil {
		t.Fatal(err)
	}
	p := connect(t, Options{Root: dir, Profile: ProfileAll})
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			_, ch := p.start("tools/call", map[string]any{"name": "edit_file", "arguments": map[string]any{
				"path": []string{"f", "g"}[i%2], "old_string": fmt.Sprintf("line%02d", i), "new_string": fmt.Sprintf("LINE%02d", i)}})
			<-ch
		})
	}
	wg.Wait()
	if got := read(t, dir+"/f"); got != strings.ToUpper(b.String()) {
		t.Errorf("lost edits:\n%s", got)
	}
}

package mcp

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Every tool that does not need the daemon works without it. No read is shortened, because nobody
// knows what was shown.
func TestWithoutDaemon(t *testing.T) {
	dir := project(t, files{"a.go": "package a\n\nfunc A() {}\n", "sub/b.txt": "one\ntwo\n"})
	p := connect(t, Options{Root: dir, Profile: ProfileAll, Reader: ReaderConnection})
	for range 2 {
		if got := p.ok("read_file", map[string]any{"path": "a.go"}); got != read(t, dir+"/a.go") {
			t.Errorf("read %q", got)
		}
	}
	if got := p.ok("read_file", map[string]any{"path": dir + "/sub/b.txt", "offset": 2, "limit": "1"}); got != "two\n" {
		t.Errorf("range: %q", got)
	}
	got := p.ok("edit_file", map[string]any{"path": "a.go", "old_string": "A()", "new_string": "B()"})
	if !strings.Contains(got, "at line 3") || !strings.Contains(got, "may be missing from its history") {
		t.Errorf("edit says %q", got)
	}
	if read(t, dir+"/a.go") != "package a\n\nfunc B() {}\n" {
		t.Errorf("edited: %q", read(t, dir+"/a.go"))
	}
	if got := p.ok("ls", nil); got != "a.go\nsub/b.txt\n" {
		t.Errorf("ls: %q", got)
	}
	if got := p.ok("ls", map[string]any{"recursive": false}); got != "a.go\nsub/\n" {
		t.Errorf("ls: %q", got)
	}
	for _, tool := range []string{"search_history", "undo", "get_working_set", "cache_status", "get_delta_metrics", "summarize_session"} {
		if got := p.bad(tool, nil); !strings.Contains(got, "no daemon in this test") {
			t.Errorf("%s: %q", tool, got)
		}
	}
}

func TestBadInput(t *testing.T) {
	outside := project(t, files{"secret": "s\n"})
	dir := project(t, files{"a.txt": "x\ny\nx\n", "d/e.txt": "e\n", "bin": "\x7fELF\x00\x00", "empty": ""})
	for link, to := range map[string]string{"out": outside, "outfile": outside + "/secret", "up": "../..", "loop": "loop", "nowhere": "gone", "in": "a.txt", "absin": dir + "/a.txt"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := connect(t, Options{Root: dir, Profile: ProfileAll})
	cases := []struct {
		tool string
		args map[string]any
		want string
	}{
		{"read_file", nil, "argument path is missing"},
		{"read_file", map[string]any{"path": ""}, "path is empty"},
		{"read_file", map[string]any{"path": 3.5, "limt": 1}, "unknown argument limt\nhint: arguments are path, offset"},
		{"read_file", map[string]any{"path": []string{"a"}}, "a string is expected"},
		{"read_file", map[string]any{"path": "a.txt", "offset": "two"}, "argument offset: a whole number"},
		{"read_file", map[string]any{"path": "a.txt", "offset": 1e18}, "argument offset: the number is too large"},
		{"read_file", map[string]any{"path": "a.txt", "offset": -1}, "offset is negative"},
		{"read_file", map[string]any{"path": "a.txt", "limit": -1}, "limit is negative"},
		{"read_file", map[string]any{"path": "a.txt", "offset": 4}, "beyond the end"},
		{"read_file", map[string]any{"path": "a.txt", "force": "maybe"}, "true or false"},
		{"read_file", map[string]any{"path": "a\x00b"}, "NUL"},
		{"read_file", map[string]any{"path": strings.Repeat("a", 5000)}, "longer than 4096"},
		{"read_file", map[string]any{"path": "../x"}, "contains .."},
		{"read_file", map[string]any{"path": "d/../../x"}, "contains .."},
		{"read_file", map[string]any{"path": dir + "x/a"}, "not inside the project"},
		{"read_file", map[string]any{"path": "/etc/passwd"}, "not inside the project"},
		{"read_file", map[string]any{"path": outside + "/secret"}, "not inside the project"},
		{"read_file", map[string]any{"path": "out/secret"}, "not inside the project"},
		{"read_file", map[string]any{"path": "outfile"}, "not inside the project"},
		{"read_file", map[string]any{"path": "up"}, "not inside the project"},
		{"read_file", map[string]any{"path": "loop"}, "too many links"},
		{"read_file", map[string]any{"path": "nowhere"}, "symlink whose target does not exist"},
		{"read_file", map[string]any{"path": "d"}, "d is a directory\nhint: ls path=d"},
		{"read_file", map[string]any{"path": "."}, "is a directory"},
		{"read_file", map[string]any{"path": "fifo"}, "not a regular file"},
		{"read_file", map[string]any{"path": "bin"}, "is binary (6 bytes)"},
		{"read_file", map[string]any{"path": "A.txt"}, "no such file: A.txt\nhint: did you mean a.txt?"},
		{"read_file", map[string]any{"path": "a.txt/b"}, "no such file"},
		{"read_files", map[string]any{"paths": []string{}}, "paths is empty"},
		{"read_files", map[string]any{"paths": []string{"gone", "/etc/passwd"}}, "=== gone ===\nerror: no such file"},
		{"read_files", map[string]any{"paths": []int{1}}, "list of strings"},
		{"edit_file", map[string]any{"path": "a.txt", "old_string": "x", "new_string": "z"}, "occurs 2 times in a.txt (lines 1, 3)"},
		{"edit_file", map[string]any{"path": "a.txt", "old_string": "q", "new_string": "z"}, "does not occur"},
		{"edit_file", map[string]any{"path": "a.txt", "old_string": "x  y", "new_string": "z"}, "different white space"},
		{"edit_file", map[string]any{"path": "a.txt", "old_string": "", "new_string": "z"}, "old_string is empty"},
		{"edit_file", map[string]any{"path": "a.txt", "old_string": "x", "new_string": "x"}, "are the same"},
		{"edit_file", map[string]any{"path": "gone.txt", "old_string": "x", "new_string": "y"}, "no such file"},
		{"edit_file", map[string]any{"path": "outfile", "old_string": "s", "new_string": "y"}, "not inside"},
		{"write_file", map[string]any{"path": "d", "content": "x"}, "is a directory"},
		{"write_file", map[string]any{"path": "d/", "content": "x"}, "names a directory"},
		{"write_file", map[string]any{"path": ".", "content": "x"}, "is a directory"},
		{"write_file", map[string]any{"path": "out/new", "content": "x"}, "not inside"},
		{"write_file", map[string]any{"path": "out/n/e/w", "content": "x"}, "not inside"},
		{"write_file", map[string]any{"path": "a.txt/new", "content": "x"}, "a.txt/new"},
		{"write_file", map[string]any{"path": "nowhere", "content": "x"}, "symlink whose target does not exist"},
		{"write_file", map[string]any{"path": "fifo", "content": "x"}, "not a regular file"},
		{"write_file", map[string]any{"path": "a.txt", "content": "x", "expected_hash": "zz"}, "not a SHA-256"},
		{"write_file", map[string]any{"path": "a.txt", "content": "x", "expected_hash": "00000000"}, "has changed"},
		{"write_file", map[string]any{"path": "a.txt", "content": "x", "expected_hash": "absent"}, "exists"},
		{"write_file", map[string]any{"path": "new", "content": "x", "expected_hash": "00000000"}, "does not exist"},
		{"revert_file", map[string]any{"path": "a.txt", "steps_back": 1, "version": "3"}, "both given"},
		{"revert_file", map[string]any{"path": "a.txt", "version": "newest"}, "is not valid"},
		{"revert_file", map[string]any{"path": "a.txt", "steps_back": -2}, "negative"},
		{"undo", map[string]any{"since": "yesterdayish"}, "is not a time"},
		{"undo", map[string]any{"paths": []string{"../x"}}, "contains .."},
		{"search_history", map[string]any{"limit": 0}, "out of range"},
		{"search_history", map[string]any{"type": "frobnicate"}, "unknown type"},
		{"search_history", map[string]any{"path_filter": "[a"}, "not a valid glob"},
		{"ls", map[string]any{"path": "a.txt"}, "not a directory"},
		{"ls", map[string]any{"path": "gone"}, "no such file"},
		{"ls", map[string]any{"path": "out"}, "not inside"},
		{"ls", map[string]any{"offset": 100}, "beyond the end"},
		{"get_working_set", map[string]any{"x": 1}, "unknown argument x\nhint: arguments are not accepted here"},
	}
	for _, tc := range cases {
		if got := p.bad(tc.tool, tc.args); !strings.Contains(got, tc.want) {
			t.Errorf("%s %.80v:\n got %q\nwant %q", tc.tool, tc.args, got, tc.want)
		}
	}
	// Nothing was written outside of the project, no temporary file is left, and the server is
	// running.
	if read(t, outside+"/secret") != "s\n" {
		t.Error("a file outside was changed")
	}
	for _, d := range []string{dir, outside} {
		left, _ := filepath.Glob(d + "/.*cachebro*")
		if len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
	for _, link := range []string{"in", "absin"} {
		if got := p.ok("read_file", map[string]any{"path": link}); got != "x\ny\nx\n" {
			t.Errorf("symlink %s inside: %q", link, got)
		}
	}
	if got := p.ok("read_file", map[string]any{"path": "empty"}); got != "" {
		t.Errorf("empty file: %q", got)
	}
	if r := p.tool("read_files", map[string]any{"paths": []string{"gone", "in"}}); r.IsError || !strings.Contains(r.Content[0].Text, "=== in ===\nx\ny\nx\n") {
		t.Errorf("one bad path spoilt the rest: %q", r.Content[0].Text)
	}
}

// A path means the same file however the client spells the project.
func TestResolve(t *testing.T) {
	dir := project(t, files{"a.txt": "a\n"})
	alias := filepath.Join(project(t, nil), "link")
	if err := os.Symlink(dir, alias); err != nil {
		t.Fatal(err)
	}
	s := &Server{opt: Options{Root: dir, Mountpoint: "/mnt/elsewhere", Aliases: []string{"/home/me/src"}}}
	for in, want := range map[string]string{
		"a.txt": "a.txt", "./a.txt": "a.txt", "x//y/./z": "x/y/z", ".": "", dir: "", dir + "/": "", dir + "/a.txt": "a.txt",
		alias + "/a.txt": "a.txt", alias + "/new/file": "new/file", "/mnt/elsewhere/b": "b", "/home/me/src/c": "c", "..a": "..a", "a..": "a..",
	} {
		if got, err := s.resolve(in); err != nil || got != want {
			t.Errorf("resolve(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"", "..", "a/..", "/", "/home/me", "/home/me/srcx/c", dir + "/../x", alias + "/../x", dir + "2"} {
		if got, err := s.resolve(in); err == nil {
			t.Errorf("resolve(%q) = %q, want an error", in, got)
		}
	}
}

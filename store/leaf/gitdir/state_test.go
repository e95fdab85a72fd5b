package gitdir

import "testing"

func TestSplit(t *testing.T) {
	for p, want := range map[string][2]string{
		".git":                               {".git", ""},
		".git/HEAD":                          {".git", "HEAD"},
		"a/.git/refs/heads/.git":             {"a/.git", "refs/heads/.git"},
		".git/modules/lib/HEAD":              {".git/modules/lib", "HEAD"},
		".git/modules/a/lib/refs/heads/x":    {".git/modules/a/lib", "refs/heads/x"},
		".git/modules/config/HEAD":           {".git/modules/config", "HEAD"},
		".git/modules/a/modules/b/logs/HEAD": {".git/modules/a/modules/b", "logs/HEAD"},
		".git/modules/lib":                   {".git", "modules/lib"},
		".git/worktrees/w/HEAD":              {".git", "worktrees/w/HEAD"},
		".gitignore":                         {"", ""},
		"x.git/HEAD":                         {"", ""},
		"a/.github/.git.d/x":                 {"", ""},
		"":                                   {"", ""},
		".git/modules/":                      {".git", "modules/"},
	} {
		dir, rest, ok := Split(p)
		if dir != want[0] || rest != want[1] || ok != (want[0] != "") {
			t.Errorf("%q: %q %q %v", p, dir, rest, ok)
		}
	}
}

func TestKinds(t *testing.T) {
	for rest, want := range map[string]Kind{
		"HEAD": State, "index": State, "refs/heads/objects/pack": State, "logs/refs/stash": State, "hooks/pre-commit": State, "rebase-merge/done": State,
		"worktrees/w/index": State, "objects/info/alternates": State, "lfs/objects/ab/cd/x": State,
		"objects/ab/cdefabcdefabcdefabcdefabcdefabcdefabcd": Objects, "objects/pack/pack-1.pack": Objects, "objects/pack/pack-1.idx": Objects,
		"": Nothing, "index.lock": Nothing, "refs/heads/x.lock": Nothing, "objects/ab/tmp_obj_x": Nothing, "objects/pack/tmp_pack_1": Nothing, "objects/pack/.tmp-1-pack-2.pack": Nothing,
		"objects/info/commit-graph": Nothing, "objects/pack/multi-pack-index": Nothing, "COMMIT_EDITMSG": Nothing, "FETCH_HEAD": Nothing,
	} {
		if got := KindOf(rest); got != want {
			t.Errorf("%q: %d, want %d", rest, got, want)
		}
	}
}

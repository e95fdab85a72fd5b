package memo

import "testing"

// A project's files are recognised wherever the project is. Those of a project in /dev/shm used to
// count as files of the machine.
func TestProjectInSharedMemory(t *testing.T) {
	p := &Places{Root: "/dev/shm/project"}
	for path, want := range map[string]place{
		"/dev/shm/project":          inside,
		"/dev/shm/project/main.go":  inside,
		"/dev/shm/projects/main.go": outside,
		"/dev/shm/segment":          outside,
		"/dev/null":                 machine,
		"/proc/self/status":         machine,
	} {
		if got := p.classify(path); got != want {
			t.Errorf("%s is %v, not %v", path, got, want)
		}
	}
}

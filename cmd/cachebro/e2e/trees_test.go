package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// compareTrees compares the mount with the source and both with the model. The source is hidden
// under the mount, and is read through mountd's own descriptor.
func compareTrees(p *project, m *model) string {
	mount, err := readTree(p.dir)
	if err != nil {
		return err.Error()
	}
	if source := sourceOf(p); source != "" {
		below, err := readTree(source)
		if err != nil {
			return err.Error()
		}
		if d := diffMaps("source", below, "mount", mount); d != "" {
			return d
		}
	}
	want := map[string]string{}
	for path, n := range m.files {
		want[path] = n.text
	}
	return diffMaps("model", want, "mount", mount)
}

func sourceOf(p *project) string {
	fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.process("mountd")))
	for _, fd := range fds {
		if target, err := os.Readlink(fd); err == nil && target == p.dir {
			return fd + "/"
		}
	}
	return ""
}

// readTree returns the text of each file, and the target of each link.
func readTree(root string) (map[string]string, error) {
	files := map[string]string{}
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if d.Type() == fs.ModeSymlink {
			to, err := os.Readlink(filepath.Join(root, path))
			files[path] = "-> " + to
			return err
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		files[path] = string(text)
		return err
	})
	return files, err
}

func diffMaps(nameA string, a map[string]string, nameB string, b map[string]string) string {
	for path, text := range a {
		if other, ok := b[path]; !ok {
			return fmt.Sprintf("%s is in the %s and not in the %s", path, nameA, nameB)
		} else if other != text {
			return fmt.Sprintf("%s: %s has %s, %s has %s", path, nameA, brief(text), nameB, brief(other))
		}
	}
	for path := range b {
		if _, ok := a[path]; !ok {
			return fmt.Sprintf("%s is in the %s and not in the %s", path, nameB, nameA)
		}
	}
	return ""
}

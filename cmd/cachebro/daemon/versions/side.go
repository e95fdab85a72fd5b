package versions

import (
	"bytes"
	"fmt"
	"strings"
	"syscall"

	"cachebro/store"
	"cachebro/store/diff"
	"cachebro/store/leaf/gitdir"
	"cachebro/store/leaf/text"
	"cachebro/store/wire"
	"cachebro/store/wire/visible"
)

// Side is one side of a diff.
type Side struct {
	Path   store.Path
	Exists bool
	Mode   uint32
	Data   []byte
}

// Replaced finds the version that v replaced, if v was renamed over another file. For an atomic
// save, this is the file's earlier version, not the temporary file.
func Replaced(st *store.Store, v store.Version) (store.Version, bool, error) {
	if v.Op != store.OpRename {
		return v, false, nil
	}
	own, err := st.History(v.Path, false)
	if err != nil {
		return v, false, err
	}
	for i := len(own) - 1; i >= 0; i-- {
		if own[i].Seq < v.Seq {
			return own[i], !own[i].Deleted() || v.Plan != "", nil
		}
	}
	return v, false, nil
}

// SideOf returns a version as a side of a diff.
func SideOf(st *store.Store, v store.Version) (Side, error) {
	s := Side{Path: v.Path, Exists: !v.Deleted(), Mode: v.Stat.Mode}
	if !s.Exists || s.Mode&syscall.S_IFMT == syscall.S_IFDIR {
		return s, nil
	}
	if v.Blob == (store.Hash{}) && v.NoContent == "" && s.Mode&syscall.S_IFMT == syscall.S_IFREG && v.Stat.Size == 0 {
		return s, nil // a new file without content yet
	}
	var err error
	s.Data, err = Content(st, v)
	return s, err
}

// WriteDiff appends the diff of one file in git's format, and counts the file and its lines in
// a.
func WriteDiff(out *bytes.Buffer, a *wire.DiffAnswer, from, to Side, lines int) {
	isDir := func(s Side) bool { return s.Exists && s.Mode&syscall.S_IFMT == syscall.S_IFDIR }
	if !from.Exists && !to.Exists || isDir(from) && isDir(to) {
		return
	}
	// Names are quoted as git does, so that git can apply the output.
	aName, bName := visible.Name("a/"+string(from.Path)), visible.Name("b/"+string(to.Path))
	oldName, newName := aName, bName
	if !from.Exists {
		oldName = "/dev/null"
	}
	if !to.Exists {
		newName = "/dev/null"
	}
	known := from.Mode != 0 && to.Mode != 0
	modes := known && from.Exists && to.Exists && from.Mode != to.Mode
	if bytes.Equal(from.Data, to.Data) && from.Exists == to.Exists && !modes && from.Path == to.Path {
		return
	}
	a.Files++
	fmt.Fprintf(out, "diff --git %s %s\n", aName, bName)
	switch {
	case !from.Exists:
		fmt.Fprintf(out, "new file mode %06o\n", to.Mode)
	case !to.Exists:
		fmt.Fprintf(out, "deleted file mode %06o\n", from.Mode)
	case modes:
		fmt.Fprintf(out, "old mode %06o\nnew mode %06o\n", from.Mode, to.Mode)
	}
	if from.Exists && to.Exists && from.Path != to.Path {
		fmt.Fprintf(out, "rename from %s\nrename to %s\n", visible.Name(string(from.Path)), visible.Name(string(to.Path)))
	}
	if text.Binary(from.Data) || text.Binary(to.Data) {
		if !bytes.Equal(from.Data, to.Data) {
			a.Binary = true
			fmt.Fprintf(out, "index %s..%s\n", from.blobName(), to.blobName()) // without it, git rejects the patch as malformed
			fmt.Fprintf(out, "Binary files %s and %s differ\n", oldName, newName)
		}
		return
	}
	if from.Exists && to.Exists && text.EncodingDiffers(from.Data, to.Data) {
		fmt.Fprintf(out, "encoding %s -> %s\n", text.EncodingOf(from.Data), text.EncodingOf(to.Data)) // git ignores headers that it does not know
	}
	s := diff.Compare(from.Data, to.Data)
	if len(s.Edits) == 0 {
		return
	}
	a.Added += s.Added()
	a.Removed += s.Removed()
	fmt.Fprintf(out, "--- %s\n+++ %s\n", oldName, newName)
	out.Write(s.Body(lines))
}

// blobName returns git's name of the content, which is all zeros if there is none.
func (s Side) blobName() string {
	const length = 40 // of a SHA-1 in hexadecimal digits
	if !s.Exists {
		return strings.Repeat("0", length)
	}
	name, _ := gitdir.BlobName(bytes.NewReader(s.Data), int64(len(s.Data)), length) // reading from memory cannot fail
	return name
}

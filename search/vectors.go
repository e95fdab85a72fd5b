package search

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"cachebro/store"
)

// vectors holds the vectors of each content's chunks, in memory and in a file next to the index.
// The file consists of JSON lines: the first names the model, and each other line is for one
// content. Vectors belong to contents, not paths, so they survive renames and rebuilds of the
// index. If a crash left the last line incomplete, that line is cut off, and its vectors are made
// again.
type vectors struct {
	path, model string

	mu     sync.RWMutex // guards the fields below; taken after Index.mu
	byBlob map[store.Hash][]vector
	file   *os.File
	lines  int
}

type vector struct {
	First int    `json:"f"`
	Last  int    `json:"l"`
	V     []byte `json:"v"` // int8s, see quantize
}

// vectorLine is a line of the file. The first line has only the model.
type vectorLine struct {
	Model  string   `json:"model,omitempty"`
	Blob   string   `json:"blob,omitempty"`
	Chunks []vector `json:"chunks,omitempty"`
}

// openVectors reads the vectors in the file if they were made with the same model.
func openVectors(path, model string) (*vectors, error) {
	t := &vectors{path: path, model: model, byBlob: map[store.Hash][]vector{}}
	good, err := t.load()
	if err != nil {
		return nil, err
	}
	t.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = t.file.Truncate(good)
	if err == nil {
		_, err = t.file.Seek(good, io.SeekStart)
	}
	if err == nil && good == 0 {
		err = t.write(vectorLine{Model: model})
	}
	if err != nil {
		t.file.Close()
		return nil, err
	}
	return t, nil
}

// load reads the file and returns the number of intact bytes at its beginning.
func (t *vectors) load() (good int64, err error) {
	f, err := os.Open(t.path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<20)
	for {
		raw, err := r.ReadBytes('\n')
		if err != nil {
			return good, nil
		}
		var l vectorLine
		if json.Unmarshal(raw, &l) != nil || good == 0 && l.Model != t.model {
			return good, nil
		}
		good += int64(len(raw))
		if l.Blob == "" {
			continue
		}
		var h store.Hash
		if n, err := hex.Decode(h[:], []byte(l.Blob)); err != nil || n != len(h) {
			return good - int64(len(raw)), nil
		}
		t.byBlob[h] = l.Chunks
		t.lines++
	}
}

func (t *vectors) write(l vectorLine) error {
	raw, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if _, err := t.file.Write(append(raw, '\n')); err != nil {
		return fmt.Errorf("write vectors: %w", err)
	}
	return nil
}

func (t *vectors) has(h store.Hash) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	_, ok := t.byBlob[h]
	return ok
}

func (t *vectors) count() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.byBlob)
}

func (t *vectors) add(h store.Hash, cut []vector) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.addLocked(h, cut)
}

// addLocked does the work of add. The caller holds mu.
func (t *vectors) addLocked(h store.Hash, cut []vector) error {
	if err := t.write(vectorLine{Blob: hex.EncodeToString(h[:]), Chunks: cut}); err != nil {
		return err
	}
	t.byBlob[h] = cut
	t.lines++
	return nil
}

// tidy drops the vectors of contents that no file has any more. It rewrites the file of vectors
// when the lines of such contents outnumber all other lines by more than 1,000.
func (t *vectors) tidy(live map[store.Hash]bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := 0
	for h := range t.byBlob {
		if live[h] {
			kept++
		}
	}
	if t.lines <= 2*kept+1000 {
		return nil
	}
	old, was := t.file, t.byBlob
	f, err := os.OpenFile(t.path+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	t.file = f
	t.byBlob, t.lines = map[store.Hash][]vector{}, 0
	err = t.write(vectorLine{Model: t.model})
	for h, cut := range was {
		if live[h] && err == nil {
			err = t.addLocked(h, cut)
		}
	}
	if err == nil {
		err = os.Rename(t.path+".new", t.path)
	}
	if err != nil {
		t.file, t.byBlob = old, was
		return errors.Join(err, f.Close())
	}
	return old.Close()
}

func (t *vectors) close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.file.Close()
}

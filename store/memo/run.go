package memo

import (
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// maxOutput is the largest output in bytes that is stored.
const maxOutput = 16 << 20

// Options configure Run.
type Options struct {
	Self         string   // this executable; "Self traced …" must call Traced
	Program      string   // absolute path
	Args         []string // with the program's name as typed
	Dir          string
	Env          []string
	Stdin        *os.File
	Stdout       *os.File
	Stderr       *os.File
	Places       *Places
	Classifier   Classifier // nil: everything in the project is tracked
	AllowOutside bool
	// Timeless assumes that the command does not show times, inode numbers or the order of
	// directories.
	Timeless bool
	// Split records stdout and stderr separately although both go to the same file.
	Split bool
	// Pass decides whether a signal that this process receives is passed on to the command.
	Pass func(os.Signal) bool
}

// Chunk is a piece of output; To is 1 or 2.
type Chunk struct {
	_    struct{} `cbor:",toarray"`
	To   int
	Text []byte
}

// Outcome is the result of a run.
type Outcome struct {
	Err    error // the error of exec.Cmd.Wait
	Output []Chunk
	Seen   []Seen
	Why    []string // reasons against a replay
	Took   time.Duration
}

// recording forwards output and records it, in the order of arrival.
type recording struct {
	mu     sync.Mutex // guards the fields below
	chunks []Chunk
	bytes  int
	over   bool
}

// copy forwards r to w until the end of r.
func (c *recording) copy(to int, w io.Writer, r io.Reader) {
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			c.keep(to, buf[:n])
			_, _ = w.Write(buf[:n]) // if the reader is gone, the command still continues
		}
		if err != nil {
			return
		}
	}
}

func (c *recording) keep(to int, text []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes += len(text)
	if c.bytes > maxOutput {
		c.over, c.chunks = true, nil
		return
	}
	if n := len(c.chunks); n > 0 && c.chunks[n-1].To == to {
		c.chunks[n-1].Text = append(c.chunks[n-1].Text, text...)
		return
	}
	c.chunks = append(c.chunks, Chunk{To: to, Text: append([]byte{}, text...)})
}

// SameFile reports whether both are the same file, pipe or terminal. If so, the order of what is
// written to the two matters, and the command gets one pipe for both.
func SameFile(a, b *os.File) bool {
	x, err := a.Stat()
	if err != nil {
		return false
	}
	y, err := b.Stat()
	return err == nil && os.SameFile(x, y)
}

// plumb gives a command pipes for its output. The caller calls start once the command runs, and
// finish after it has ended. finish waits until all output is forwarded, but only briefly if other
// processes still hold the pipes.
func plumb(cmd *exec.Cmd, o *Options, rec *recording) (start func() (finish func()), err error) {
	var ours, theirs []*os.File
	drop := func(fs []*os.File) {
		for _, f := range fs {
			f.Close()
		}
	}
	type end struct {
		to int
		w  io.Writer
		r  *os.File
	}
	var ends []end
	for to, w := range map[int]*os.File{1: o.Stdout, 2: o.Stderr} {
		if to == 2 && !o.Split && SameFile(o.Stdout, o.Stderr) {
			continue
		}
		r, p, err := os.Pipe()
		if err != nil {
			drop(append(ours, theirs...))
			return nil, err
		}
		ours, theirs = append(ours, r), append(theirs, p)
		ends = append(ends, end{to, w, r})
		if to == 1 {
			cmd.Stdout = p
		} else {
			cmd.Stderr = p
		}
	}
	if len(ends) == 1 {
		cmd.Stderr = cmd.Stdout
	}
	return func() func() {
		drop(theirs)
		var wg sync.WaitGroup
		for _, e := range ends {
			wg.Go(func() { rec.copy(e.to, e.w, e.r) })
		}
		return func() {
			all := make(chan struct{})
			go func() { wg.Wait(); close(all) }()
			select {
			case <-all:
			case <-time.After(500 * time.Millisecond):
				drop(ours) // ends the copies
				<-all
			}
			drop(ours)
		}
	}, nil
}

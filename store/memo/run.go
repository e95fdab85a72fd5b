package memo

import (
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// mostOutput is how much a command may write to be remembered, in bytes.
const mostOutput = 16 << 20

// Options of Run.
type Options struct {
	Self         string   // this binary: "Self traced …" must call Traced
	Program      string   // absolute
	Args         []string // with the program's name as it was typed
	Dir          string
	Env          []string
	Stdin        *os.File
	Stdout       *os.File
	Stderr       *os.File
	Places       *Places
	Classifier   Classifier // nil: everything in the project is tracked
	AllowOutside bool
	// Timeless: that the command does not show times, inode numbers or the order in which a
	// directory is read, whatever its programs ask for.
	Timeless bool
	// Split: the two outputs are told apart though both go to the same place.
	Split bool
	// Pass says whether a signal that we got is for the command too.
	Pass func(os.Signal) bool
}

// Chunk is a piece of output; To is 1 or 2.
type Chunk struct {
	_    struct{} `cbor:",toarray"`
	To   int
	Text []byte
}

// Outcome is what a command did.
type Outcome struct {
	Err    error // of exec.Cmd.Wait
	Output []Chunk
	Seen   []Seen
	Why    []string // why it cannot be replayed
	Took   time.Duration
}

// recording passes output on and keeps it, in the order in which it came.
type recording struct {
	mu     sync.Mutex // guards the fields below
	chunks []Chunk
	bytes  int
	over   bool
}

// copy passes on what comes from r until its end.
func (c *recording) copy(to int, w io.Writer, r io.Reader) {
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			c.keep(to, buf[:n])
			_, _ = w.Write(buf[:n]) // a reader that has gone is no reason to stop the command
		}
		if err != nil {
			return
		}
	}
}

func (c *recording) keep(to int, text []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bytes += len(text); c.bytes > mostOutput {
		c.over, c.chunks = true, nil
		return
	}
	if n := len(c.chunks); n > 0 && c.chunks[n-1].To == to {
		c.chunks[n-1].Text = append(c.chunks[n-1].Text, text...)
		return
	}
	c.chunks = append(c.chunks, Chunk{To: to, Text: append([]byte{}, text...)})
}

// SameFile reports whether both are one file, pipe or terminal: then their
// order counts, and the command gets one pipe for both.
func SameFile(a, b *os.File) bool {
	x, err := a.Stat()
	if err != nil {
		return false
	}
	y, err := b.Stat()
	return err == nil && os.SameFile(x, y)
}

// plumb gives a command pipes for its output. Call start once the command runs; it
// returns a function that waits until everything was passed on, or at most a moment
// after the command's end if others still hold the pipes.
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
		ours, theirs, ends = append(ours, r), append(theirs, p), append(ends, end{to, w, r})
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

package search

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
)

// EmbedCommand is an Embedder that runs a command to turn texts into vectors.
//
// # Protocol
//
// The command is started when first needed and keeps running. It reads one JSON object per line
// from standard input and answers each object with one line on standard output, in order:
//
//	{"id":1,"kind":"passage","texts":["…","…"]}
//	{"id":1,"vectors":[[0.1,…],[0.2,…]]}
//
// kind is "passage" for parts of files and "query" for questions. An answer with "error" instead of
// "vectors" means that only this request failed. A command that exits, answers late, or answers in
// a wrong form is killed, and started again for the next request. The command is run without a
// shell: the command line is split at white space.
//
// # Locks
//
// mu is held during a whole exchange, so requests run one after the other.
type EmbedCommand struct {
	words []string

	mu  chan struct{} // a lock that can be awaited with a context; guards run and id
	run *embedProcess
	id  int
}

// embedProcess is one running command.
type embedProcess struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string // closed by the reader at the end of the output
	stop  chan struct{}
	ended sync.WaitGroup
}

const maxLine = 64 << 20

// NewEmbedCommand returns an Embedder that runs a command line, or nil if the command line is
// empty.
func NewEmbedCommand(commandLine string) *EmbedCommand {
	words := strings.Fields(commandLine)
	if len(words) == 0 {
		return nil
	}
	c := &EmbedCommand{words: words, mu: make(chan struct{}, 1)}
	c.mu <- struct{}{}
	return c
}

// Model returns the command line, which stands for the model, because another command makes other
// vectors.
func (c *EmbedCommand) Model() string { return strings.Join(c.words, " ") }

type request struct {
	ID    int      `json:"id"`
	Kind  string   `json:"kind"`
	Texts []string `json:"texts"`
}

type answer struct {
	ID      int         `json:"id"`
	Vectors [][]float32 `json:"vectors"`
	Error   string      `json:"error"`
}

// Embed implements Embedder.
func (c *EmbedCommand) Embed(ctx context.Context, texts []string, query bool) ([][]float32, error) {
	select {
	case <-c.mu:
		defer func() { c.mu <- struct{}{} }()
	case <-ctx.Done():
		return nil, fmt.Errorf("the embedder is busy: %w", ctx.Err())
	}
	if c.run == nil {
		run, err := start(c.words)
		if err != nil {
			return nil, err
		}
		c.run = run
	}
	c.id++
	q := request{ID: c.id, Kind: "passage", Texts: texts}
	if query {
		q.Kind = "query"
	}
	a, err := c.run.exchange(ctx, q)
	if err == nil && a.Error == "" {
		err = a.check(q)
	}
	if err != nil { // after an error, later answers could belong to other requests
		c.run.kill()
		c.run = nil
		return nil, fmt.Errorf("embedder %s: %w", c.words[0], err)
	}
	if a.Error != "" {
		return nil, fmt.Errorf("embedder %s: %s", c.words[0], a.Error)
	}
	return a.Vectors, nil
}

func (a *answer) check(q request) error {
	if a.ID != q.ID || len(a.Vectors) != len(q.Texts) {
		return fmt.Errorf("answer %d with %d vectors to request %d with %d texts", a.ID, len(a.Vectors), q.ID, len(q.Texts))
	}
	for _, v := range a.Vectors {
		if len(v) == 0 || len(v) != len(a.Vectors[0]) {
			return errors.New("vectors of different lengths")
		}
	}
	return nil
}

func start(words []string) (*embedProcess, error) {
	r := &embedProcess{cmd: exec.Command(words[0], words[1:]...), lines: make(chan string), stop: make(chan struct{})}
	in, err := r.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := r.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start embedder: %w", err)
	}
	r.in = in
	r.ended.Go(func() {
		defer close(r.lines)
		s := bufio.NewScanner(out)
		s.Buffer(nil, maxLine)
		for s.Scan() {
			select {
			case r.lines <- s.Text():
			case <-r.stop:
				return
			}
		}
	})
	return r, nil
}

// exchange sends a request and waits for its answer or the end of ctx.
func (r *embedProcess) exchange(ctx context.Context, q request) (a answer, err error) {
	raw, err := json.Marshal(q)
	if err != nil {
		return a, err
	}
	r.ended.Go(func() { // ends at the latest when the process is killed
		_, _ = r.in.Write(append(raw, '\n')) // if this fails, no answer comes, and exchange reports it
	})
	select {
	case line, ok := <-r.lines:
		if !ok {
			return a, errors.New("it has ended")
		}
		return a, json.Unmarshal([]byte(line), &a)
	case <-ctx.Done():
		return a, ctx.Err()
	}
}

func (r *embedProcess) kill() {
	close(r.stop)
	_ = r.in.Close()
	_ = r.cmd.Process.Kill()
	r.ended.Wait()
	_ = r.cmd.Wait()
}

// Close ends the command.
func (c *EmbedCommand) Close() error {
	<-c.mu
	defer func() { c.mu <- struct{}{} }()
	if c.run != nil {
		c.run.kill()
		c.run = nil
	}
	return nil
}

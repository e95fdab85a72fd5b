package main

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// trace is one recorded session. testdata/traces/README.md describes the format.
type trace struct {
	name      string
	LineBytes []int        `json:"line_bytes"`
	Events    []traceEvent `json:"events"`
}

type traceEvent struct {
	Op      string `json:"op"`
	Agent   int    `json:"agent"`
	File    int    `json:"file"`
	Start   int    `json:"start"`
	Lines   runs   `json:"lines"`
	Total   int    `json:"total"`
	Offset  int    `json:"offset"`
	Limit   int    `json:"limit"`
	Chars   int    `json:"chars"`
	Kind    string `json:"kind"`
	Old     runs   `json:"old"`
	New     runs   `json:"new"`
	All     bool   `json:"all"`
	Nontext any    `json:"nontext"`
	Error   bool   `json:"error"`
	Out     runs   `json:"out"`
}

// runs is a list of line numbers, written as numbers and inclusive ranges.
type runs []int

// UnmarshalJSON reads numbers and pairs.
func (r *runs) UnmarshalJSON(b []byte) error {
	var items []json.RawMessage
	if err := json.Unmarshal(b, &items); err != nil {
		return err
	}
	for _, it := range items {
		var n int
		if json.Unmarshal(it, &n) == nil {
			*r = append(*r, n)
			continue
		}
		var pair [2]int
		if err := json.Unmarshal(it, &pair); err != nil {
			return fmt.Errorf("lines: %s is neither a number nor a range", it)
		}
		for n := pair[0]; n <= pair[1]; n++ {
			*r = append(*r, n)
		}
	}
	return nil
}

// load reads one gzipped trace.
func load(file string) (*trace, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	t := &trace{name: strings.TrimSuffix(filepath.Base(file), ".json.gz")}
	if err := json.NewDecoder(z).Decode(t); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return t, nil
}

// loadAll reads the traces in a directory whose names are in names, or all traces if names is
// empty. They are in the order of their names.
func loadAll(dir string, names []string) ([]*trace, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json.gz"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no traces in %s", dir)
	}
	want := map[string]bool{}
	for _, n := range names {
		want[n] = true
	}
	sort.Strings(files)
	var out []*trace
	for _, f := range files {
		if len(want) > 0 && !want[strings.TrimSuffix(filepath.Base(f), ".json.gz")] {
			continue
		}
		t, err := load(f)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no trace in %s is called %s", dir, strings.Join(names, " or "))
	}
	return out, nil
}

package search

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// commandMain is the embedding command. Its argument selects a way in which it fails.
func commandMain() {
	s := bufio.NewScanner(os.Stdin)
	for n := 1; s.Scan(); n++ {
		switch os.Args[1] {
		case "good":
			fmt.Printf("{\"id\":%d,\"vectors\":[[1,0],[0,%d]]}\n", n, n)
		case "refuses":
			fmt.Printf("{\"id\":%d,\"error\":\"out of memory\"}\n", n)
		case "few":
			fmt.Printf("{\"id\":%d,\"vectors\":[[1]]}\n", n)
		case "uneven":
			fmt.Printf("{\"id\":%d,\"vectors\":[[1],[1,2]]}\n", n)
		case "talks":
			fmt.Println("loading the model")
		case "hangs":
			time.Sleep(time.Hour)
		case "ends":
			return
		case "once": // the command ends at the second request
			if n == 2 {
				return
			}
			fmt.Printf("{\"id\":%s,\"vectors\":[[1],[2]]}\n", strings.Split(strings.SplitAfter(s.Text(), ":")[1], ",")[0])
		}
	}
}

func TestCommand(t *testing.T) {
	if NewEmbedCommand(" ") != nil {
		t.Error("an empty command line is a command")
	}
	texts := []string{"one", "two\nlines"}
	for way, want := range map[string]string{
		"refuses": "out of memory", "few": "1 vectors to request 1 with 2 texts", "uneven": "different lengths", "talks": "invalid character",
		"hangs": "deadline", "ends": "it has ended",
	} {
		c := NewEmbedCommand(os.Args[0] + " " + way)
		limit := time.Minute
		if way == "hangs" {
			limit = 200 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		if v, err := c.Embed(ctx, texts, true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v; want an error with %q", way, v, err, want)
		}
		cancel()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	c := NewEmbedCommand(os.Args[0] + "  good")
	for n := 1; n <= 3; n++ {
		v, err := c.Embed(t.Context(), texts, false)
		if err != nil || len(v) != 2 || v[1][1] != float32(n) {
			t.Errorf("request %d: %v %v", n, v, err)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := NewEmbedCommand("/nonexistent/embedder").Embed(t.Context(), texts, false); err == nil {
		t.Error("a missing command embeds")
	}
}

// TestAgain: the command ends, the request fails, and the next request starts the command again.
func TestAgain(t *testing.T) {
	c := NewEmbedCommand(os.Args[0] + " once")
	defer c.Close()
	for round := range 3 {
		if _, err := c.Embed(t.Context(), []string{"a", "b"}, false); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if _, err := c.Embed(t.Context(), []string{"a", "b"}, false); err == nil {
			t.Fatalf("round %d: it had ended", round)
		}
	}
}

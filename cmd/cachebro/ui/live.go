package ui

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"cachebro/store/leaf/loop"
	"cachebro/store/wire"
)

const (
	// lookEvery is the pause between two checks for changes while a page is visible. beatEvery is
	// the pause between two keep-alive messages to a page.
	lookEvery = 500 * time.Millisecond
	beatEvery = 15 * time.Second
)

// live notifies pages of changes. It checks for changes only while a page listens, and pages listen
// only while they are visible.
type live struct {
	ctx context.Context
	s   *source

	// mu guards the fields below.
	mu       sync.Mutex
	pages    map[chan news]bool // never closed; each channel buffers the newest news
	watching bool
	last     news
	ended    string // why the server ends
}

// news is what is sent to the open pages.
type news struct {
	number uint64 // of the newest version
	note   string // a line about the project's state, for example if it is not mounted
}

func (s *source) newest(ctx context.Context) (uint64, error) {
	if err := s.checkExists(); err != nil {
		return 0, err
	}
	a, err := wire.Call[wire.LogAnswer](ctx, s.c, wire.MLog, wire.LogQuery{Limit: 1})
	if err != nil || len(a.Versions) == 0 {
		return 0, err
	}
	return a.Versions[0].Seq, nil
}

// changed asks mountd whether something changed since token. It does not ask the daemon, which may
// end while nothing happens. Without a mount only the daemon can know, so yes is always true.
func (s *source) changed(ctx context.Context, token string) (next, note string, yes bool) {
	if s.target().Point == "" {
		return "", "not mounted: changes made now are found only later, without their author; cachebro mount records them", true
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	a, err := wire.AskChanges(ctx, s.e.Paths(), s.t.Root, token, "")
	if err != nil {
		return "", "", true
	}
	answered, _, _ := bytes.Cut(a, []byte{0})
	return string(answered), "", bytes.Count(a, []byte{0}) > 1 || token == ""
}

// listen returns a channel that gets the news whenever there is any.
func (l *live) listen() chan news {
	ch := make(chan news, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pages[ch] = true
	if l.last.note != "" {
		ch <- l.last
	}
	if !l.watching {
		l.watching = true
		go l.watch()
	}
	return ch
}

func (l *live) leave(ch chan news) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pages, ch)
}

// watch checks for changes while a page listens.
func (l *live) watch() {
	token, checks := "", 0
	for {
		next, note, changed := l.s.changed(l.ctx, token)
		token = next
		if changed {
			checks = 4 // mountd's reports reach the log a moment later
		}
		if checks > 0 {
			checks--
			n, err := l.s.newest(l.ctx)
			l.broadcast(news{n, note}, err == nil)
		}
		loop.Pause(l.ctx, lookEvery)
		l.mu.Lock()
		if len(l.pages) == 0 || l.ctx.Err() != nil {
			l.watching = false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
	}
}

// broadcast sends news to the pages. If known is false, the number of n is unknown.
func (l *live) broadcast(n news, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !known {
		n.number = l.last.number
	}
	if n == l.last {
		return
	}
	l.last = n
	for ch := range l.pages {
		select {
		case <-ch: // drop the older news that was not fetched
		default:
		}
		ch <- n
	}
}

// end records why the server ends.
func (l *live) end(why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = why
}

// parting returns why the server ends, which is the last message to a page.
func (l *live) parting() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

// serve streams server-sent events: "changed" with the newest number, "note" with news.note, and
// finally "ended" with the reason.
func (l *live) serve(w http.ResponseWriter, r *http.Request) {
	f, ok := w.(http.Flusher)
	if !ok {
		http.Error(w, "cannot stream", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, ": hello\n\n")
	f.Flush()
	ch, note := l.listen(), ""
	defer l.leave(ch)
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	for {
		select {
		case <-r.Context().Done():
			if why := l.parting(); why != "" {
				fmt.Fprintf(w, "event: ended\ndata: %s\n\n", oneLine(why))
				f.Flush()
			}
			return
		case n := <-ch:
			if n.note != note {
				note = n.note
				fmt.Fprintf(w, "event: note\ndata: %s\n\n", oneLine(note))
			}
			if _, err := fmt.Fprintf(w, "event: changed\ndata: %d\n\n", n.number); err != nil {
				return
			}
		case <-beat.C:
			if _, err := fmt.Fprint(w, ": beat\n\n"); err != nil {
				return
			}
		}
		f.Flush()
	}
}

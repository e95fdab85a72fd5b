package mounting

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"cachebro/cmd/cachebro/cli"
	"cachebro/store/wire"
)

// Moment resolves a moment as a person writes it: an age, a time, a number of the log (812), a
// label, prompt/last or session/last/start.
func Moment(ctx context.Context, e *cli.Env, c *wire.Client, given string) (wire.Moment, error) {
	if l, ok := e.LabelOf(c.Hello().Root, given); ok {
		return wire.Moment{Seq: l.Seq, At: l.At}, nil
	}
	words, err := momentWords(given)
	var m wire.Moment
	if err == nil {
		m, err = resolve(ctx, c, words, e.Now())
	}
	if errors.Is(err, syscall.ENOENT) || errors.Is(err, errMore) {
		err = errors.New("want an age, a time, a number of the log, a label, a prompt or the start of a session")
	}
	if err != nil {
		return m, cli.Hintf("10m, 12:40, 812, prompt/last or session/last/start", "%s is not a moment: %v", cli.Quote(given), err)
	}
	return m, nil
}

// momentWords splits a moment into the elements of its path in the directory at/.
func momentWords(given string) ([]string, error) {
	if seq := strings.TrimPrefix(given, "#"); seq != "" && strings.Trim(seq, "0123456789") == "" {
		return []string{"version", seq}, nil
	}
	given = strings.Trim(given, "/")
	if given == "" || !filepath.IsLocal(given) {
		return nil, errors.New("want a time, an age, or a number of the log")
	}
	return strings.Split(given, "/"), nil
}

// resolve finds the moment that words name. It returns errMore if more words are needed.
func resolve(ctx context.Context, c *wire.Client, words []string, now time.Time) (m wire.Moment, err error) {
	var q wire.MomentQuery
	switch kind := words[0]; {
	case kind == "version" || kind == "prompt":
		if len(words) < 2 {
			return m, errMore
		}
		if len(words) > 2 {
			return m, syscall.ENOENT
		}
		q.Prompt = words[1]
		if kind == "version" {
			q.Prompt = ""
			q.Seq, err = strconv.ParseUint(words[1], 10, 64)
			if err != nil {
				return m, syscall.ENOENT
			}
			if q.Seq == 0 { // before anything was recorded
				return m, nil
			}
		}
	case kind == "session":
		switch {
		case len(words) < 3:
			return m, errMore
		case len(words) > 3 || words[2] != "start":
			return m, syscall.ENOENT
		}
		q.Session = words[1]
	default:
		at, ok := wire.ParseTime(strings.Replace(kind, "T", " ", 1), now)
		if !ok {
			at, ok = wire.ParseTime(kind, now)
		}
		if !ok || len(words) > 1 {
			return m, syscall.ENOENT
		}
		q.At = at
	}
	return wire.Call[wire.Moment](ctx, c, wire.MMoment, q)
}

var errMore = errors.New("the moment is incomplete")

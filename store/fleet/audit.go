package fleet

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
)

// An audit file consists of lines of JSON. Each JSON text is followed by a blank and a sum. The sum
// is the SHA-256 of the previous line's sum, a newline and this line's JSON, so it covers all lines
// up to this one. The first line holds the query. Then come the machines with the ends of their
// chains of segments in the bucket, and the versions by time. The last line holds counts, and its
// sum covers the whole file.
const auditFormat = "cachebro-audit 1"

type auditHead struct {
	Format  string    `json:"format"`
	Made    time.Time `json:"made"`
	Project string    `json:"project,omitempty"`
	Machine string    `json:"machine,omitempty"`
	Path    string    `json:"path,omitempty"`
	Session string    `json:"session,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	Until   time.Time `json:"until,omitzero"`
	// Kept is the time before which versions were dropped from the database.
	Kept time.Time `json:"kept,omitzero"`
}

type auditMachine struct {
	Project  string `json:"project"`
	Machine  string `json:"machine"`
	ID       string `json:"machine_id"`
	Segments int64  `json:"segments"`
	Log      string `json:"log"` // SHA-256 of the last segment's log
	// Writers lists the hosts that wrote under the ID, with their ranges of versions.
	Writers []auditWriter `json:"writers,omitempty"`
}

type auditWriter struct {
	Machine string `json:"machine"`
	First   int64  `json:"first"`
	Last    int64  `json:"last,omitempty"` // 0: the present writer
}

type auditVersion struct {
	Version
	Content string `json:"sha256,omitempty"`
}

type auditEnd struct {
	Machines int64 `json:"machines"`
	Versions int64 `json:"versions"`
}

// ErrAudit means that an audit file was changed after it was exported.
var ErrAudit = errors.New("the audit file was changed")

// chain writes lines with their sums.
type chain struct {
	w   *bufio.Writer
	sum string
}

func link(sum string, line []byte) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n", sum)
	h.Write(line)
	return hex.EncodeToString(h.Sum(nil))
}

func (c *chain) put(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	c.sum = link(c.sum, line)
	_, err = fmt.Fprintf(c.w, "%s %s\n", line, c.sum)
	return err
}

// Export writes the versions that a query selects, oldest first. It ignores q.Limit. It returns the
// last sum and the number of versions.
func (d *DB) Export(ctx context.Context, q Query, made time.Time, w io.Writer) (sum string, n int64, err error) {
	q.Limit = 0
	c := chain{w: bufio.NewWriterSize(w, 1<<16)}
	in, err := d.scope(ctx, q)
	if err != nil {
		return "", 0, err
	}
	var end auditEnd
	// Use one transaction, so that all rows are from the same moment.
	o := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pgx.BeginTxFunc(ctx, d.pool, o, func(tx pgx.Tx) error {
		kept, err := keptSince(ctx, tx)
		if err != nil {
			return err
		}
		if err := c.put(auditHead{auditFormat, made.UTC(), q.Project, q.Machine, q.Path, q.Session, q.Since, q.Until, kept}); err != nil {
			return err
		}
		var m auditMachine
		const machines = `select p.place, m.name, m.machine, m.segments, m.log,
			(select coalesce(json_agg(json_build_object('machine', w.name, 'first', w.first, 'last', nullif(w.last, 9223372036854775807)) order by w.first), '[]')::text
				from writers w where w.machine = m.id)
			from machines m join projects p on p.id = m.project where $1::bigint[] is null or m.id = any($1) order by m.id`
		var writers string
		rows, _ := tx.Query(ctx, machines, in.machines)
		_, err = pgx.ForEachRow(rows, []any{&m.Project, &m.Machine, &m.ID, &m.Segments, &m.Log, &writers}, func() error {
			end.Machines++
			m.Writers = nil
			if err := json.Unmarshal([]byte(writers), &m.Writers); err != nil {
				return err
			}
			return c.put(m)
		})
		if err == nil {
			err = each(ctx, tx, q, in, "asc", func(v Version) error {
				end.Versions++
				return c.put(audited(v))
			})
		}
		if err == nil {
			err = c.put(end)
		}
		return err
	})
	return c.sum, end.Versions, errors.Join(err, c.w.Flush())
}

// audited returns a version in the form of an audit file.
func audited(v Version) auditVersion {
	v.Time = v.Time.UTC()
	return auditVersion{v, hex.EncodeToString(v.Blob)}
}

// auditLine is the longest line that Verify accepts. A version with its paths and texts is shorter.
const auditLine = 1 << 20

// Auditor receives the lines of an audit file during verification.
type Auditor interface {
	head(auditHead) error
	machine(auditMachine) error
	version(line []byte, v auditVersion) error
}

// Verify reads the output of Export and returns its sum and number of versions. It returns ErrAudit
// if a byte was changed, added or removed. The error names the line. If with is not nil, it
// receives the lines and can compare them with the buckets.
func Verify(r io.Reader, with Auditor) (sum string, versions int64, err error) {
	in := bufio.NewReaderSize(r, auditLine)
	var have, end auditEnd
	ended := false
	for n := 1; ; n++ {
		line, err := in.ReadSlice('\n')
		if len(line) == 0 && err == io.EOF {
			break
		}
		if err != nil && err != io.EOF && !errors.Is(err, bufio.ErrBufferFull) {
			return "", 0, err
		}
		wrong := func(why string) (string, int64, error) { return "", 0, fmt.Errorf("%w: line %d %s", ErrAudit, n, why) }
		if err != nil {
			return wrong("is cut off")
		}
		if ended {
			return wrong("follows the end line")
		}
		line = line[:len(line)-1]
		at := bytes.LastIndexByte(line, ' ')
		if at < 0 || link(sum, line[:at]) != string(line[at+1:]) {
			return wrong("has a wrong sum")
		}
		sum = string(line[at+1:])
		line = line[:at]
		var kind struct {
			Format   string `json:"format"`
			Seq      *int64 `json:"seq"`
			Segments *int64 `json:"segments"`
			Machines *int64 `json:"machines"`
		}
		switch err := json.Unmarshal(line, &kind); {
		case err != nil:
			return wrong("is not JSON")
		case (n == 1) != (kind.Format != ""):
			return wrong("is in the wrong place")
		case n == 1 && kind.Format != auditFormat:
			return "", 0, fmt.Errorf("%w: the format of the file is %.40q", ErrNewer, kind.Format)
		case kind.Seq != nil:
			have.Versions++
		case kind.Segments != nil:
			have.Machines++
		case kind.Machines != nil:
			if json.Unmarshal(line, &end) != nil || end != have {
				return wrong("has wrong counts")
			}
			ended = true
		}
		if with != nil {
			if err := tell(with, line, kind.Format != "", kind.Seq != nil, kind.Segments != nil); err != nil {
				return "", 0, fmt.Errorf("line %d: %w", n, err)
			}
		}
	}
	if !ended {
		return "", 0, fmt.Errorf("%w: its end is missing", ErrAudit)
	}
	return sum, have.Versions, nil
}

// tell passes a line to an Auditor.
func tell(with Auditor, line []byte, head, version, machine bool) error {
	switch {
	case head:
		return decoded(line, with.head)
	case version:
		return decoded(line, func(v auditVersion) error { return with.version(line, v) })
	case machine:
		return decoded(line, with.machine)
	}
	return nil
}

func decoded[T any](line []byte, fn func(T) error) error {
	var v T
	if err := json.Unmarshal(line, &v); err != nil {
		return fmt.Errorf("%w: %w", ErrAudit, err)
	}
	return fn(v)
}

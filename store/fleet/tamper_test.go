package fleet

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"cachebro/scripts/testkit/fleettest"
	"cachebro/scripts/testkit/remotetest"
	"cachebro/store/remote"
)

// TestTampering: any change in the database or in the bucket is found by comparing an audit file
// with the bucket, by the command index, or by fsck. doc/fleet.md lists the changes that none of
// them finds.
func TestTampering(t *testing.T) {
	address := fleettest.Postgres(t)
	d := openedAt(t, address)
	srv := remotetest.New(t)
	p := at(t, srv, "app")
	one := newBox(t, p, "agent1")
	for i := range 4 {
		one.write(t, "a.go", fmt.Sprint(i), "s-1", fmt.Sprint("c", i))
		one.send(t)
	}
	srv.Pass(remote.Lease)
	two := successor(t, one, "agent2")
	for i := range 3 {
		two.write(t, "b.go", fmt.Sprint("b", i), "s-2", fmt.Sprint("d", i))
		two.send(t)
	}
	other := newBox(t, p, "agent3")
	other.write(t, "c.go", "c", "s-3", "e")
	other.send(t)
	id, third := two.r.Head().Machine.ID, other.r.Head().Machine.ID
	if _, err := one.feed(t.Context(), t, d); err != nil {
		t.Fatal(err)
	}
	bucket, err := remote.Dial(p)
	if err != nil {
		t.Fatal(err)
	}
	audit := func() error {
		var file bytes.Buffer
		if _, _, err := d.Export(t.Context(), Query{}, time.Now(), &file); err != nil {
			return err
		}
		against := NewAgainst(t.Context())
		against.Add(p, bucket)
		_, _, err := Verify(&file, against)
		return errors.Join(err, against.Missing())
	}
	if err := audit(); err != nil {
		t.Fatalf("untouched: %v", err)
	}
	// Change the database.
	for what, sql := range map[string]string{
		"a version's time":              `update versions set time = time + interval '1 second' where seq = 2`,
		"a version's path":              `update versions set path = 'other.go' where seq = 2`,
		"a version's session":           `update versions set session = 's-9' where seq = 2`,
		"a version's agent":             `update versions set agent = 'helper' where seq = 2`,
		"a version's prompt":            `update versions set prompt = null where seq = 2`,
		"a version's content":           `update versions set blob = sha256('x') where seq = 2`,
		"a version's size":              `update versions set size = size + 1 where seq = 2`,
		"a version's operation":         `update versions set op = 'deleted' where seq = 2`,
		"a version's machine":           fmt.Sprintf(`update versions v set machine = (select id from machines where machine = '%s'), seq = 40 where seq = 2`, third),
		"a version's number":            `update versions set seq = 99 where seq = 7`,
		"a version that is gone":        `delete from versions where seq = 2`,
		"all of a session":              `delete from versions where session = 's-2'`,
		"a version that never was":      `insert into versions select machine, 77, time, op, path, path_bytes, other, blob, size, missing, prev, session, agent, prompt, action, class, comm, segment from versions where seq = 2`,
		"a version made one of a scan":  `update versions set op = 'baseline' where seq = 2`,
		"a version made an excluded":    `update versions set class = 'excluded' where seq = 2`,
		"a version's action":            `update versions set action = null where seq = 2`,
		"a command's words":             `update actions set title = 'rm -rf /' where id = 'call:c1'`,
		"who wrote":                     `update writers set name = 'agent9' where name = 'agent1'`,
		"where a machine's range ends":  `update writers set last = last - 1 where name = 'agent1'`,
		"a range that is gone":          `delete from writers where name = 'agent1'`,
		"a machine's chain":             fmt.Sprintf(`update machines set log = '%064d' where machine = '%s'`, 7, id),
		"how far a machine is":          fmt.Sprintf(`update machines set segments = segments - 1 where machine = '%s'`, id),
		"a machine's id":                fmt.Sprintf(`update machines set machine = '%032d' where machine = '%s'`, 7, id),
		"a machine without its history": fmt.Sprintf(`delete from versions where machine = (select id from machines where machine = '%s')`, third),
	} {
		tampered(t, d, sql, func() {
			if err := audit(); !errors.Is(err, ErrUntrue) && !errors.Is(err, remote.ErrMissing) {
				t.Errorf("%s: the audit says %v", what, err)
			}
		})
	}
	tampered(t, d, fmt.Sprintf(`delete from segments where machine = (select id from machines where machine = '%[1]s'); delete from sessions where machine = (select id from machines where machine = '%[1]s');
		delete from prompts where machine = (select id from machines where machine = '%[1]s'); delete from actions where machine = (select id from machines where machine = '%[1]s');
		delete from writers where machine = (select id from machines where machine = '%[1]s'); delete from versions where machine = (select id from machines where machine = '%[1]s'); delete from machines where machine = '%[1]s'`, third), func() {
		if err := audit(); !errors.Is(err, ErrUntrue) || !strings.Contains(err.Error(), "lacks the machine") {
			t.Errorf("a machine that is gone: %v", err)
		}
	})
	if err := audit(); err != nil {
		t.Fatalf("after that: %v", err)
	}

	// Change the bucket.
	h, err := bucket.Head(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	head, list, log, contents := "app/heads/"+id, "app/machines", "app/logs/"+id+"/"+h.Segments[1].Log, fmt.Sprintf("app/contents/%s/0/%s", id, h.Segments[1].Contents)
	flipped := func(key string) []byte {
		b := bytes.Clone(srv.Object(key))
		b[len(b)/2] ^= 1
		return b
	}
	rewritten := func(change func(*remote.Head)) []byte {
		h := h
		h.Former = append([]remote.Former{}, h.Former...)
		h.Segments = append([]remote.Segment{}, h.Segments...)
		change(&h)
		return sealed("head", h)
	}
	fsck := func() error {
		r, err := bucket.Fsck(t.Context(), true)
		if err == nil && len(r.Problems) > 0 {
			err = fmt.Errorf("%w: %s", remote.ErrForged, strings.Join(r.Problems, "; "))
		}
		return err
	}
	databases := 0
	fresh := func() error {
		databases++
		if _, err := d.pool.Exec(t.Context(), fmt.Sprintf("create database fresh%d", databases)); err != nil {
			t.Fatal(err)
		}
		d := openedAt(t, strings.Replace(address, "/postgres?", fmt.Sprintf("/fresh%d?", databases), 1))
		_, err := one.feed(t.Context(), t, d)
		return err
	}
	if err := fsck(); err != nil {
		t.Fatalf("fsck, untouched: %v", err)
	}
	for _, c := range []struct {
		what, key string
		body      []byte // nil: the object is deleted
		index     bool   // index finds it too, in a new database
	}{
		{"a log's byte", log, flipped(log), true},
		{"a log that is gone", log, nil, true},
		{"a log in another's place", log, srv.Object("app/logs/" + id + "/" + h.Segments[2].Log), true},
		{"contents' byte", contents, flipped(contents), false},
		{"contents that are gone", contents, nil, false},
		{"the head's byte", head, flipped(head), true},
		{"another machine's head", head, srv.Object("app/heads/" + third), true},
		{"a name of a former writer", head, rewritten(func(h *remote.Head) { h.Former[0].Machine.Name = "agent9" }), true},
		{"the range of a former writer", head, rewritten(func(h *remote.Head) { h.Former[0].Seq-- }), true},
		{"who wrote before is gone", head, rewritten(func(h *remote.Head) { h.Former = nil }), true},
		{"a segment left out", head, rewritten(func(h *remote.Head) { h.Segments = append(h.Segments[:2], h.Segments[3:]...) }), true},
		{"a segment's size", head, rewritten(func(h *remote.Head) { h.Segments[1].LogSize++ }), true},
		{"a machine missing in the list", list, sealed("machines", map[string]any{"machines": []remote.Machine{h.Machine}}), true},
		{"the list of machines gone", list, nil, true},
		{"the list's byte", list, flipped(list), true},
	} {
		was := bytes.Clone(srv.Object(c.key))
		srv.Set(c.key, c.body)
		if err := fsck(); err == nil {
			t.Errorf("%s: fsck finds nothing", c.what)
		}
		if err := fresh(); (err != nil) != c.index {
			t.Errorf("%s: index says %v", c.what, err)
		}
		srv.Set(c.key, was)
	}
	if err := fsck(); err != nil {
		t.Fatalf("fsck, after that: %v", err)
	}
	// An older head is valid in itself. Only somebody who has seen a newer head notices the
	// difference.
	older := rewritten(func(h *remote.Head) {
		h.N, h.Log, h.Segments = 5, h.Segments[4].Log, h.Segments[:5]
		h.Seq = h.Segments[4].Seq
	})
	was := bytes.Clone(srv.Object(head))
	srv.Set(head, older)
	if _, err := one.feed(t.Context(), t, d); !errors.Is(err, remote.ErrLost) {
		t.Errorf("an older head: index says %v", err)
	}
	if err := audit(); !errors.Is(err, ErrUntrue) {
		t.Errorf("an older head: the audit says %v", err)
	}
	srv.Set(head, nil)
	if err := audit(); !errors.Is(err, ErrUntrue) {
		t.Errorf("no head: the audit says %v", err)
	}
	srv.Set(head, was)
	if _, err := one.feed(t.Context(), t, d); err != nil {
		t.Error(err)
	}
	if err := audit(); err != nil {
		t.Error(err)
	}
	var names json.RawMessage
	if err := d.pool.QueryRow(t.Context(), `select json_agg(w.name order by first) from writers w join machines m on m.id = w.machine where m.machine = $1`, id).Scan(&names); err != nil || string(names) != `["agent1", "agent2"]` {
		t.Errorf("the writers are %s, %v", names, err)
	}
}

// tampered changes the database by a statement, calls do, and then restores the database.
func tampered(t *testing.T, d *DB, sql string, do func()) {
	t.Helper()
	tables := []string{"machines", "writers", "segments", "sessions", "prompts", "actions", "versions"}
	exec := func(sql string) {
		t.Helper()
		for _, one := range strings.Split(sql, ";") {
			if _, err := d.pool.Exec(t.Context(), one); err != nil {
				t.Fatalf("%s: %v", one, err)
			}
		}
	}
	for _, name := range tables {
		exec("create table kept_" + name + " as select * from " + name)
	}
	exec(sql)
	do()
	for i := range tables {
		exec("delete from " + tables[len(tables)-1-i])
	}
	for _, name := range tables {
		override := ""
		if name == "machines" || name == "writers" {
			override = " overriding system value"
		}
		exec("insert into " + name + override + " select * from kept_" + name)
		exec("drop table kept_" + name)
	}
}

// sealed returns a bucket object with a valid hash. Anybody who may write to the bucket can make
// one.
func sealed(kind string, v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return append(fmt.Appendf(nil, "cachebro-remote 1 %s %x\n", kind, sha256.Sum256(b)), b...)
}

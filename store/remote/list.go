package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
)

// object is an entry of a listing of the bucket.
type object struct {
	key     string // relative to the prefix
	kind    string // the first part of the key
	machine string // owner of the object; "" for the object "machines", which all share
	size    int64
	at      time.Time // time of the PUT, according to the server's clock
}

// maxListed limits the number of objects read from a listing.
const maxListed = 50_000_000

// list calls do with the objects under the prefix in key order. foreign is the number of other
// objects, which cachebro did not write. Only maintenance of the bucket needs a listing.
func (b *Bucket) list(ctx context.Context, do func(object) error) (foreign int, err error) {
	return b.listBelow(ctx, "", do)
}

// listBelow is like list, but only for the objects in one directory.
func (b *Bucket) listBelow(ctx context.Context, dir string, do func(object) error) (foreign int, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(b.pageWithin, func() { cancel(errLate) }) // per page
	defer late.Stop()
	prefix := ""
	if b.place.Prefix != "" {
		prefix = b.place.Prefix + "/"
	}
	n := 0
	for o := range b.core.ListObjectsIter(ctx, b.place.Bucket, minio.ListObjectsOptions{Prefix: prefix + dir, Recursive: true}) {
		if o.Err != nil && errors.Is(context.Cause(ctx), errLate) {
			o.Err = errLate
		}
		if o.Err != nil {
			return foreign, b.failed("list", cmp.Or(prefix, "the bucket"), o.Err)
		}
		late.Reset(b.pageWithin)
		n++
		if n > maxListed {
			return foreign, fmt.Errorf("%w: the listing has no end", ErrForged)
		}
		key, ok := strings.CutPrefix(o.Key, prefix)
		if !ok {
			return foreign, fmt.Errorf("%w: the listing names %.80q", ErrForged, o.Key)
		}
		one, ok := objectOf(key)
		if !ok {
			foreign++
			continue
		}
		one.size, one.at = o.Size, o.LastModified
		if err := do(one); err != nil {
			return foreign, err
		}
	}
	return foreign, context.Cause(ctx)
}

// errLate means that a listing did not continue in time. It is not an error of a context, because
// such an error means that the caller has ended the request.
var errLate = errors.New("the server does not continue its answer")

// objectOf parses a key. It returns false if the key does not belong to this package.
func objectOf(key string) (o object, ok bool) {
	parts := strings.Split(key, "/")
	o = object{key: key, kind: parts[0]}
	switch {
	case key == "machines":
		return o, true
	case o.kind == "heads" && len(parts) == 2:
		o.machine = parts[1]
		return o, validID(o.machine)
	case (o.kind == "lists" || o.kind == "logs") && len(parts) == 3:
		o.machine = parts[1]
		return o, validID(o.machine) && validHash(parts[2])
	case o.kind == "contents" && len(parts) == 4:
		o.machine = parts[1]
		gen, err := strconv.Atoi(parts[2])
		return o, validID(o.machine) && err == nil && strconv.Itoa(gen) == parts[2] && validHash(parts[3])
	}
	return o, false
}

// ErrUnlisted means that a machine has a head but is not in the list of machines.
var ErrUnlisted = errors.New("is not in the list of machines, so cachebro log --machine does not find it (run cachebro remote add on that machine)")

// unlisted returns the IDs that are not in the list.
func (all machines) unlisted(ids []string) (out []string) {
	listed := map[string]bool{}
	for _, m := range all.Machines {
		listed[m.ID] = true
	}
	for _, id := range ids {
		if !listed[id] {
			out = append(out, id)
		}
	}
	return out
}

// AllMachines returns the machines in a project's list, and the IDs of machines that have a head
// but are not in the list, even if the list is damaged. If the bucket does not allow listing objects,
// these IDs are unknown and refused is the error.
func (b *Bucket) AllMachines(ctx context.Context) (all []Machine, unlisted []string, refused, err error) {
	var ids []string
	_, err = b.listBelow(ctx, "heads/", func(o object) error { ids = append(ids, o.machine); return nil })
	if errors.Is(err, ErrRefused) {
		ids = nil
		refused, err = err, nil
	}
	if err != nil {
		return nil, nil, refused, err
	}
	// Read the list after the heads, because a machine is in the list before it has a head.
	list, _, err := b.machines(ctx)
	return list.Machines, list.unlisted(ids), refused, err
}

// Usage is the space that a project takes in the bucket.
type Usage struct {
	Machines []MachineUsage `json:"machines"` // largest first
	Objects  int            `json:"objects"`
	Bytes    int64          `json:"bytes"`
	// Foreign is the number of objects under the prefix that cachebro did not write.
	Foreign int `json:"foreign,omitempty"`
}

// MachineUsage is the space that a machine takes.
type MachineUsage struct {
	Machine  Machine   `json:"machine"`
	Last     time.Time `json:"last,omitzero"` // time of its last segment, according to its clock
	Versions uint64    `json:"versions"`
	Objects  int       `json:"objects"`
	Bytes    int64     `json:"bytes"`    // total size of its objects
	Contents int64     `json:"contents"` // the part of Bytes for contents of files
	// Unknown means that the machine is not in the list of machines.
	Unknown bool `json:"unknown,omitempty"`
	// Problem is the reason why its head could not be read.
	Problem string `json:"problem,omitempty"`
}

// Usage lists the objects and sums up their sizes.
func (b *Bucket) Usage(ctx context.Context) (u Usage, err error) {
	all, _, err := b.machines(ctx)
	if err != nil {
		return u, err
	}
	of := map[string]*MachineUsage{}
	for _, m := range all.Machines {
		of[m.ID] = &MachineUsage{Machine: m}
	}
	u.Foreign, err = b.list(ctx, func(o object) error {
		u.Objects++
		u.Bytes += o.size
		if o.machine == "" {
			return nil
		}
		m := of[o.machine]
		if m == nil {
			m = &MachineUsage{Machine: Machine{ID: o.machine}, Unknown: true}
			of[o.machine] = m
		}
		m.Objects++
		m.Bytes += o.size
		if o.kind == "contents" {
			m.Contents += o.size
		}
		return nil
	})
	if err != nil {
		return u, err
	}
	for id, m := range of {
		h, err := b.Head(ctx, id)
		switch {
		case err == nil:
			m.Machine, m.Last, m.Versions = h.Machine, h.Time, h.Versions
		case isBad(err), errors.Is(err, ErrMissing) && m.Objects > 0:
			m.Problem = err.Error()
		case !errors.Is(err, ErrMissing):
			return u, err
		}
		u.Machines = append(u.Machines, *m)
	}
	slices.SortFunc(u.Machines, func(a, b MachineUsage) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Machine.ID, b.Machine.ID))
	})
	return u, nil
}

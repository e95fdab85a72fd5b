package content

import (
	"bytes"
	"runtime"
	"testing"
)

// An encoder for contents of 256 KiB at most holds no window of 8 MiB: the daemon keeps
// one, and its peak while the first index is made grew by 12 MB with it.
func TestEncoderHoldsLittle(t *testing.T) {
	var p codecPool
	defer p.close()
	content := bytes.Repeat([]byte("what is compressed in two blocks or more\n"), fast/41)
	alive := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := alive()
	z, err := p.compress(content, nil)
	if err != nil {
		t.Fatal(err)
	}
	if held := int64(alive()) - int64(before); held > 4<<20 {
		t.Errorf("%d bytes are held", held)
	}
	if got, err := p.expand(z, nil, int64(len(content))); err != nil || !bytes.Equal(got, content) {
		t.Fatal(len(got), err)
	}
}

package content

import (
	"bytes"
	"runtime"
	"testing"
)

// An encoder for contents of at most 256 KiB has no window of 8 MiB. The daemon keeps one
// encoder, and a large window raised its peak memory during the first indexing by 12 MB.
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

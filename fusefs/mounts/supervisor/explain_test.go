package supervisor

import (
	"errors"
	"strings"
	"testing"

	"cachebro/store/wire"
)

func TestExplain(t *testing.T) {
	raw := wire.Errorf(wire.ErrNoDaemon, "look at /s/daemon.log", "the store daemon could not start: time=x level=ERROR msg=start err=\"…\"\ncachebro: open store /s/store: the store is damaged: manifest has bad magic\nhint: check and repair it: cachebro fsck")
	err := Explain(raw, "/s")
	if !errors.Is(err, wire.ErrDamaged) || err.Error() != "the store daemon could not start: open store /s/store: the store is damaged: manifest has bad magic" {
		t.Errorf("%v", err)
	}
	if h := wire.Hint(err); !strings.HasPrefix(h, "mv /s/store /s/store.damaged") {
		t.Errorf("hint: %s", h)
	}
	first := wire.Errorf(wire.ErrNoDaemon, "", "the store daemon could not start: cachebro: some reason\nhint: do this")
	if err := Explain(first, "/s"); !strings.HasSuffix(err.Error(), "start: some reason") || wire.Hint(err) != "do this" {
		t.Errorf("%v, hint %s", err, wire.Hint(err))
	}
	other := errors.New("something else")
	if Explain(other, "/s") != other || Explain(nil, "/s") != nil {
		t.Error("other errors must stay as they are")
	}
	silent := wire.Errorf(wire.ErrNoDaemon, "h", "the store daemon (pid 7) does not answer")
	if Explain(silent, "/s") != error(silent) {
		t.Error("without a word of the daemon nothing can be explained")
	}
}

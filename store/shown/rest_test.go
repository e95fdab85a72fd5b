package shown

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"cachebro/store"
)

// fullKV takes nothing while full is set, and counts how often it was tried.
type fullKV struct {
	full  bool
	tries int
}

func (k *fullKV) Get(string) ([]byte, bool, error)              { return nil, false, nil }
func (k *fullKV) Delete(string) error                           { return nil }
func (k *fullKV) Scan(string, func(string, []byte) error) error { return nil }
func (k *fullKV) Set(string, []byte) error {
	k.tries++
	if k.full {
		return errors.New("no space left on device")
	}
	return nil
}

// The ledger is saved where it has changed, ever more rarely where that fails, and
// soon again after it went well.
func TestSavesOnlyWhatChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := &fullKV{}
		s, err := New(nil, kv, Options{})
		if err != nil {
			t.Fatal(err)
		}
		done, ended := make(chan struct{}), make(chan struct{})
		failures := 0
		go func() { s.Run(done, func(error) { failures++ }); close(ended) }()
		spend := func() { s.Spend(store.Reader{Session: "s"}, "Read", 10, 5, false, Full) }

		time.Sleep(time.Hour)
		synctest.Wait()
		if kv.tries != 0 {
			t.Errorf("%d times saved with nothing to save", kv.tries)
		}
		spend()
		time.Sleep(2 * saveEvery)
		synctest.Wait()
		if kv.tries != 1 || failures != 0 {
			t.Errorf("%d times saved after one change, %d failures", kv.tries, failures)
		}

		kv.full = true
		spend()
		time.Sleep(time.Hour)
		synctest.Wait()
		if failures == 0 || failures > 70 {
			t.Errorf("%d failures in an hour on a full disk", failures)
		}
		kv.full, kv.tries = false, 0
		time.Sleep(2 * saveLast)
		synctest.Wait()
		if kv.tries != 1 {
			t.Errorf("%d times saved once there was room", kv.tries)
		}
		spend()
		time.Sleep(2 * saveEvery)
		synctest.Wait()
		if kv.tries != 2 {
			t.Errorf("%d times saved, want one more", kv.tries)
		}
		close(done)
		<-ended
	})
}

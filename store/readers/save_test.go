package readers

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cachebro/store"
	"cachebro/store/wire"
)

// fullKV rejects writes while full is set, and counts the attempts.
type fullKV struct {
	full  atomic.Bool
	tries atomic.Int64
}

func (k *fullKV) Get(string) ([]byte, bool, error)              { return nil, false, nil }
func (k *fullKV) Delete(string) error                           { return nil }
func (k *fullKV) Scan(string, func(string, []byte) error) error { return nil }
func (k *fullKV) Set(string, []byte) error {
	k.tries.Add(1)
	if k.full.Load() {
		return errors.New("no space left on device")
	}
	return nil
}

// Accounts are saved when they have changed. After each failure, the next attempt waits longer.
// After a success, they are saved soon again.
func TestSavesOnlyWhatChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := &fullKV{}
		s, err := New(nil, kv, Options{})
		if err != nil {
			t.Fatal(err)
		}
		done, ended := make(chan struct{}), make(chan struct{})
		var failures atomic.Int64
		go func() { s.Run(done, func(error) { failures.Add(1) }); close(ended) }()
		spend := func() { s.Spend(store.Reader{Session: "s"}, "Read", 10, 5, false, wire.ReadFull) }

		time.Sleep(time.Hour)
		synctest.Wait()
		if kv.tries.Load() != 0 {
			t.Errorf("%d times saved with nothing to save", kv.tries.Load())
		}
		spend()
		time.Sleep(2 * saveEvery)
		synctest.Wait()
		if kv.tries.Load() != 1 || failures.Load() != 0 {
			t.Errorf("%d times saved after one change, %d failures", kv.tries.Load(), failures.Load())
		}

		kv.full.Store(true)
		spend()
		time.Sleep(time.Hour)
		synctest.Wait()
		if failures.Load() == 0 || failures.Load() > 70 {
			t.Errorf("%d failures in an hour on a full disk", failures.Load())
		}
		kv.full.Store(false)
		kv.tries.Store(0)
		time.Sleep(2 * saveLast)
		synctest.Wait()
		if kv.tries.Load() != 1 {
			t.Errorf("%d times saved once there was room", kv.tries.Load())
		}
		spend()
		time.Sleep(2 * saveEvery)
		synctest.Wait()
		if kv.tries.Load() != 2 {
			t.Errorf("%d times saved, want one more", kv.tries.Load())
		}
		close(done)
		<-ended
	})
}

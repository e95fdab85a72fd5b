package fusefs

import (
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// A process that has a nameless file open can open that file again for writing. The overlay refuses
// the kernel's first attempt, so that the kernel looks the name up again, and allows the second.
func TestNamelessFileIsOpenedAgain(t *testing.T) {
	f := mountTest(t, nil)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			name := filepath.Join(f.dir, strconv.Itoa(i))
			for range 20 {
				old, err := os.Create(name)
				if err == nil {
					err = os.Remove(name)
				}
				if err != nil {
					t.Error(err)
					return
				}
				for _, flag := range []int{os.O_WRONLY, os.O_RDWR | os.O_TRUNC, os.O_WRONLY | os.O_APPEND} {
					again, err := os.OpenFile("/proc/self/fd/"+strconv.Itoa(int(old.Fd())), flag, 0)
					if err != nil {
						t.Error(err)
						continue
					}
					if _, err := again.WriteString("x"); err != nil {
						t.Error(err)
					}
					again.Close()
				}
				if fi, err := old.Stat(); err != nil || fi.Size() != 2 {
					t.Errorf("%v, %v", fi, err)
				}
				old.Close()
			}
		})
	}
	wg.Wait()
}

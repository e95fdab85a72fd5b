//go:build uitest && uimany

package uitest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// TestManyVersions shows a history of 100,000 versions. It measures how soon the first view appears
// and what the page costs, and checks that scrolling shows every version. The times depend on the
// machine, so they are only printed.
func TestManyVersions(t *testing.T) {
	p := newProject(t)
	for n := range 500 {
		p.apart(fmt.Sprintf("mkdir -p many; for i in $(seq 200); do echo 'line %d of '$i >many/f$i; done", n))
	}
	var all []uint64
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(time.Second) {
		all = all[:0]
		versions := 0
		for _, line := range strings.Split(strings.TrimSpace(p.cb("", "log", "--actions", "--json")), "\n") {
			var a struct {
				Last     uint64
				Versions int
			}
			if err := json.Unmarshal([]byte(line), &a); err != nil {
				t.Fatalf("%v: %.200s", err, line)
			}
			all, versions = append(all, a.Last), versions+a.Versions
		}
		if versions >= 100_000 {
			t.Logf("%d versions in %d actions", versions, len(all))
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("only %d versions", versions)
		}
	}
	first := p.ui()
	b := newTab(t)
	const watch = `new MutationObserver((_, o) => { if (document.querySelector(".action")) { window.firstView = performance.now(); o.disconnect() } }).observe(document, {childList: true, subtree: true})`
	if _, err := chromedp.Call(b.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: watch}); err != nil {
		t.Fatal(err)
	}
	b.do(chromedp.Navigate(first))
	b.until("the timeline is there", `document.querySelector(".action")`)
	for range 5 {
		before := ticks(p.pages.Pid)
		b.do(chromedp.Reload())
		b.until("the timeline is there", `window.firstView > 0`)
		t.Logf("first view after %.0f ms, of which the server took %d ms of processor time", eval[float64](b, "window.firstView"), ticks(p.pages.Pid)-before)
	}
	b.until("it goes on to the oldest while one scrolls", `(() => { scrollTo(0, document.body.scrollHeight); return !document.querySelector(".more") && document.querySelector(".action") })()`)
	shown := eval[[]uint64](b, `[...document.querySelectorAll(".action")].map((a) => Number(a.dataset.last))`)
	if fmt.Sprint(shown) != fmt.Sprint(all) {
		t.Errorf("the page shows %d actions, the log has %d", len(shown), len(all))
	}
	t.Logf("%d actions shown, %.1f MB of heap, %s", len(shown), eval[float64](b, "performance.memory.usedJSHeapSize / 1e6"), b.renderers())
}

// ticks returns the processor time that processes have used, in milliseconds.
func ticks(pids ...int) (ms int64) {
	for _, pid := range pids {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
		if len(f) > 12 {
			user, _ := strconv.ParseInt(f[11], 10, 64)
			system, _ := strconv.ParseInt(f[12], 10, 64)
			ms += 10 * (user + system)
		}
	}
	return ms
}

// renderers returns the memory of our browser's pages, without memory that they share with other
// processes.
func (b *tab) renderers() string {
	var all []string
	own := fmt.Sprint("\nPPid:\t", chromedp.FromContext(b.ctx).Browser.Process().Pid, "\n")
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		args, _ := os.ReadFile(d + "/cmdline")
		zygote, _ := os.ReadFile(d + "/status")
		if !strings.Contains(string(args), "--type=renderer") {
			continue
		}
		if up := strings.SplitN(string(zygote), "PPid:\t", 2); len(up) == 2 { // the parent is a zygote process of this browser
			above, _ := os.ReadFile("/proc/" + strings.SplitN(up[1], "\n", 2)[0] + "/status")
			if !strings.Contains(string(zygote)+string(above), own) {
				continue
			}
		}
		b, _ := os.ReadFile(d + "/smaps_rollup")
		for _, line := range strings.Split(string(b), "\n") {
			if strings.HasPrefix(line, "Pss:") {
				all = append(all, "a renderer's "+strings.Join(strings.Fields(line), " "))
			}
		}
	}
	return strings.Join(all, ", ")
}

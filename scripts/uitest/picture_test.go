//go:build uitest && uipicture

package uitest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestPicture takes the README's pictures, which are in doc: the plan that undoes a disaster, and
// the timeline with the diff of a change.
func TestPicture(t *testing.T) {
	p := newProject(t)
	p.prompt("p3", "Clean up: remove what is not needed any more")
	p.tool("p3", "toolu_05", "rm -rf src web; mv docs.md README.md")
	first := p.ui()
	b := newTab(t)
	b.do(chromedp.EmulateViewport(1180, 720, chromedp.EmulateScale(2)))
	b.do(chromedp.Navigate(first))
	b.until("the timeline is there", `document.querySelectorAll(".action").length >= 5 && document.querySelector("#lanes rect")`)
	b.until("counts are final", `!document.querySelector("[data-unsure]")`)
	keep := func(name string) {
		png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
		if err == nil {
			err = os.WriteFile(filepath.Join("..", "..", "doc", name), png, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	eval[any](b, `document.querySelector(".action header .take").click()`)
	b.until("the plan shows the lines that come back", `document.querySelectorAll("#plan tr.add").length > 20`)
	keep("ui-disaster.png")
	eval[any](b, `document.querySelector("#plan form .go").click()`)
	b.until("it is taken back", `document.querySelector("#plan")?.innerText.includes("done:")`)
	eval[any](b, `document.querySelector("#plan [data-close]").click()`)
	b.until("the log says so", `[...document.querySelectorAll(".action.undone")].some(a => a.textContent.includes("rm -rf src web"))`)
	b.until("a diff opens", `(() => { const a = [...document.querySelectorAll(".action")].find(a => a.textContent.includes("dear customer")); const d = a?.querySelector("details"); if (d) d.open = true; a?.scrollIntoView({block: "center"}); return a?.querySelector(".diff tr.add") })()`)
	keep("ui-diff.png")
	if p.read("src/client.go") == "" || p.read("web/cart.py") == "" {
		t.Error("the disaster was not taken back")
	}
}

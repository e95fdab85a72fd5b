package tokens

import (
	"flag"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tiktoken-go/tokenizer"
)

var corpusDir = flag.String("corpus", "", "one more directory with JavaScript and TypeScript")

var fit = flag.Bool("fit", false, "print costs.go fitted anew to the training half of the corpus")

// source is a language and the directories with its source text on a machine with Go and Python.
// Missing languages are left out. Files are assigned to the training or the test half by a hash of
// their names, so that the estimate is checked on text to which it was not fitted.
type source struct {
	lang string
	dirs []string
	ext  []string
}

func sources() []source {
	gosrc := "/usr/local/go/src"
	if root, err := exec.Command("go", "env", "GOROOT").Output(); err == nil {
		gosrc = filepath.Join(strings.TrimSpace(string(root)), "src")
	}
	mods := filepath.Join(os.Getenv("HOME"), "go/pkg/mod")
	npm := []string{*corpusDir, "/usr/lib/node_modules", "/usr/local/lib/node_modules", "/usr/share/nodejs"}
	python := []string{"/usr/lib/python3", os.Getenv("HOME") + "/.pyenv/versions"}
	for _, v := range []string{"3.9", "3.10", "3.11", "3.12", "3.13"} {
		python = append(python, "/usr/lib/python"+v)
	}
	all := append(append([]string{gosrc, mods}, npm...), python...)
	return []source{
		{"go", []string{gosrc + "/net", gosrc + "/go", gosrc + "/os", mods + "/github.com"}, []string{".go"}},
		{"js", npm, []string{".js", ".mjs", ".cjs"}},
		{"ts", append(npm, mods), []string{".ts"}},
		{"python", python, []string{".py"}},
		{"c", append([]string{"/usr/include", gosrc + "/runtime"}, mods), []string{".h", ".c"}},
		{"markdown", all, []string{".md"}},
		{"json", all, []string{".json"}},
	}
}

// collect returns up to limit bytes of each language's training or test half.
func collect(src source, test bool, limit int) (text []string) {
	size := 0
	for _, dir := range src.dirs {
		if dir == "" {
			continue
		}
		filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || size > limit {
				return filepath.SkipAll
			}
			if d.IsDir() || !hasExt(path, src.ext) {
				return nil
			}
			h := fnv.New32a()
			h.Write([]byte(filepath.Base(path)))
			if (h.Sum32()>>7&1 == 1) != test {
				return nil
			}
			b, err := os.ReadFile(path)
			if err != nil || len(b) > 64<<10 || len(b) == 0 {
				return nil
			}
			text = append(text, string(b))
			size += len(b)
			return nil
		})
	}
	return text
}

func hasExt(path string, exts []string) bool {
	for _, e := range exts {
		if strings.HasSuffix(path, e) {
			return true
		}
	}
	return false
}

// TestFit prints the tables: the mean token count of all pieces of a shape and length. Cells with
// too few samples follow the trend of their row.
func TestFit(t *testing.T) {
	if !*fit {
		t.Skip("only with -fit")
	}
	enc, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		t.Fatal(err)
	}
	var sum, count [shapes][longest + 1]float64
	var xtra, xlen [shapes]float64
	memo := map[string]int{}
	for _, src := range sources() {
		for _, text := range collect(src, false, 4<<20) {
			b := []byte(text)
			for i := 0; i < len(b); {
				end, shape, n := piece(b, i)
				p := string(b[i:end])
				i = end
				// Count a wide rune together with its run of wide runes, because the run is encoded
				// as one piece.
				if shape >= sLatin {
					for i < len(b) {
						e, s, _ := piece(b, i)
						if s != shape {
							break
						}
						p += string(b[i:e])
						n++
						i = e
					}
				}
				k, ok := memo[p]
				if !ok {
					ids, _, err := enc.Encode(p)
					if err != nil {
						t.Fatal(err)
					}
					k = len(ids)
					memo[p] = k
				}
				switch {
				case shape >= sLatin:
					sum[shape][1] += float64(k)
					count[shape][1] += float64(n)
				case n > longest:
					xtra[shape] += float64(k)
					xlen[shape] += float64(n)
				default:
					sum[shape][n] += float64(k)
					count[shape][n]++
				}
			}
		}
	}
	fmt.Println("var costs = [shapes][longest + 1]uint16{")
	for s := range sum {
		fmt.Print("\t{0")
		prev := 1.0
		for n := 1; n <= longest; n++ {
			v := prev
			if count[s][n] >= 50 {
				v = sum[s][n] / count[s][n]
			} else if n > 1 && s < sSame && s != sDigits {
				v = prev + 0.12
			}
			prev = v
			fmt.Printf(", %d", int(v*unit+0.5))
		}
		fmt.Println("},")
	}
	fmt.Println("}\n\nvar perExtra = [shapes]int{")
	for s := range xtra {
		v := 0.25
		if xlen[s] > 0 {
			v = xtra[s] / xlen[s]
		}
		fmt.Printf("\t%d,\n", int(v*unit+0.5))
	}
	fmt.Println("}")
}

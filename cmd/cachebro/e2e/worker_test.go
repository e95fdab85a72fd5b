package e2e

import (
	"bufio"
	"math/rand"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

const workerArg = "e2e-worker"

// workerMain executes one file operation per line, so that several processes can work on the
// mount in an order that the test decides.
func workerMain() {
	in := bufio.NewReader(os.Stdin)
	held := map[string]*os.File{}
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\x00")
		os.Stdout.WriteString(work(held, f) + "\n")
	}
}

func work(held map[string]*os.File, f []string) string {
	var err error
	switch f[0] {
	case "write":
		if len(f) > 3 { // quoted, because a line end ends a request
			if f[2], err = strconv.Unquote(f[2]); err != nil {
				break
			}
		}
		err = os.WriteFile(f[1], []byte(f[2]), 0o644)
	case "append":
		var file *os.File
		if file, err = os.OpenFile(f[1], os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644); err == nil {
			_, err = file.WriteString(f[2])
			file.Close()
		}
	case "save":
		tmp := f[1] + ".tmp~"
		if err = os.WriteFile(tmp, []byte(f[2]), 0o644); err == nil {
			err = os.Rename(tmp, f[1])
		}
	case "truncate":
		err = os.Truncate(f[1], int64(len(f[2])))
	case "rename":
		err = os.Rename(f[1], f[2])
	case "exchange":
		err = exchange(f[1], f[2])
	case "link":
		err = os.Link(f[1], f[2])
	case "unlink":
		err = syscall.Unlink(f[1])
	case "mkdir":
		err = os.Mkdir(f[1], 0o755)
	case "rmdir":
		err = syscall.Rmdir(f[1])
	case "run": // run a quoted command as a child with an input, and return its output
		command, _ := strconv.Unquote(f[1])
		cmd := exec.Command("sh", "-c", command)
		cmd.Stdin = strings.NewReader(f[2])
		var out []byte
		if out, err = cmd.CombinedOutput(); err == nil {
			return strconv.Quote(string(out))
		}
	case "burst": // root, seed, number of changes
		seed, _ := strconv.ParseInt(f[2], 10, 64)
		n, _ := strconv.Atoi(f[3])
		(&burst{r: rand.New(rand.NewSource(seed)), root: f[1], held: held}).run(n)
	case "hold": // open for writing and hold
		if held[f[1]] != nil {
			held[f[1]].Close()
		}
		held[f[1]], err = os.OpenFile(f[1], os.O_RDWR, 0)
	case "make": // create, write and hold
		if held[f[1]], err = os.Create(f[1]); err == nil {
			_, err = held[f[1]].WriteString(f[2])
		}
	case "poke": // write into the held file without closing it
		if file := held[f[1]]; file != nil {
			_, err = file.WriteAt([]byte(f[2]), 0)
		}
	case "drop":
		if file := held[f[1]]; file != nil {
			err = file.Close()
			delete(held, f[1])
		}
	}
	if err != nil {
		return strings.ReplaceAll(err.Error(), "\n", " ")
	}
	return "ok"
}

// worker is a process of its own that works on the mount.
type worker struct {
	cmd *exec.Cmd
	in  *bufio.Writer
	out *bufio.Reader
	end func()
}

func startWorker(t *testing.T, env ...string) *worker {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, workerArg)
	cmd.Env = append(os.Environ(), env...)
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w := &worker{cmd: cmd, in: bufio.NewWriter(in), out: bufio.NewReader(out), end: func() { in.Close() }}
	t.Cleanup(w.stop)
	return w
}

func (w *worker) do(parts ...string) string {
	w.in.WriteString(strings.Join(parts, "\x00") + "\n")
	w.in.Flush()
	line, err := w.out.ReadString('\n')
	if err != nil {
		return "worker is gone"
	}
	return strings.TrimSpace(line)
}

// stop ends the worker, which closes its descriptors.
func (w *worker) stop() {
	if w.end != nil {
		w.end()
		w.end = nil
		_ = w.cmd.Wait()
	}
}

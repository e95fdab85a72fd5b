// Command clients drives coding agents against a scripted model on loopback, in projects mounted by
// cachebro, and checks in the bodies of the requests what reached the model. For Claude Code it
// runs scripts/claude. It prints the table that is in doc/clients.md. run.sh installs the clients
// and builds cachebro. The exit status is 1 if a check fails.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

func main() {
	os.Exit(run())
}

// client is a coding agent, with the methods that the scenes need.
type client interface {
	name() string
	program() string
	// prepare writes the client's configuration, with cachebro's plugin, below b.home.
	prepare(b *bench) error
	// scenes returns the scenes. They run in order, each in a new project.
	scenes() []scene
}

type scene struct {
	ability string // column of the table
	as      string // text in that column; "" means yes
	run     func(b *bench)
}

// abilities are the columns of the table. If a client has no scene for an ability, the table shows
// that the client lacks it.
var abilities = []string{"attribution", "session ids", "rewriting of reads", "sub-agents", "compaction", "own MCP reads", inTheNet}

// counted are the abilities whose scenes run a second time without cachebro, to compare the bytes
// of the tool results that reach the model.
var counted = []string{"rewriting of reads", "sub-agents", "compaction"}

// counts returns a client's row with the bytes of the results without and with cachebro.
func (b *bench) counts(c client) (string, error) {
	row, any := fmt.Sprintf("| %s |", c.name()), false
	for _, ability := range counted {
		with, without := 0, 0
		for i, s := range c.scenes() {
			name := fmt.Sprintf("%s-%d", strings.ToLower(strings.ReplaceAll(c.name(), " ", "")), i)
			if s.ability != ability || b.results[name] == 0 || s.as == codeMode {
				continue
			}
			b.bare = true
			err := b.scene(c, s, name+"-without")
			b.bare = false
			if err != nil {
				return "", err
			}
			with, without = with+b.results[name], without+b.results[name+"-without"]
		}
		if without == 0 {
			row += " – |"
			continue
		}
		any = true
		row += fmt.Sprintf(" %d → %d (−%.0f %%) |", without, with, 100-100*float64(with)/float64(without))
	}
	if !any {
		return "", nil
	}
	return row, nil
}

// bench holds the state with which scenes work.
type bench struct {
	part               string // run only scenes for this ability; "" means all
	top, exe, npm, dir string
	home, project      string
	name               string // name of the scene that is running
	model              *model
	results            map[string]int // bytes of tool results, by scene
	bare               bool           // run without cachebro and check nothing
	net                bool           // run on a machine where nothing can be mounted
	failed             bool
	failures           int
}

func run() int {
	exe := flag.String("cachebro", "", "the cachebro binary, absolute")
	npm := flag.String("npm", "", "the directory with the clients' node_modules, absolute")
	keep := flag.String("dir", "", "work here and keep everything (default: a temporary directory, removed)")
	only := flag.String("only", "", "run only the client with this name")
	checks := flag.String("claude", "", "the checks of scripts/claude, absolute")
	part := flag.String("scene", "", "run only the scene that tests this ability")
	flag.Parse()
	top, err := os.Getwd()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	dir := *keep
	if dir == "" {
		dir, err = os.MkdirTemp("", "cachebro-clients-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
	}
	b := &bench{part: *part, top: top, exe: *exe, npm: *npm, dir: dir}
	b.results = map[string]int{}
	rows := []string{"| client | version | " + strings.Join(abilities, " | ") + " |", "|---|---|" + strings.Repeat("---|", len(abilities))}
	var counts []string
	for _, c := range append([]client{claudeCode{*checks}, openCode{}, codex{}, gemini{}}, others...) {
		if *only != "" && !strings.EqualFold(*only, c.name()) {
			continue
		}
		row, err := b.client(c)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", c.name(), err)
			return 1
		}
		rows = append(rows, row)
		row, err = b.counts(c)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", c.name(), err)
			return 1
		}
		if row != "" {
			counts = append(counts, row)
		}
	}
	fmt.Println("\n" + strings.Join(rows, "\n"))
	if len(counts) > 0 {
		fmt.Println("\n| client | " + strings.Join(counted, " | ") + " |\n|---|" + strings.Repeat("---|", len(counted)) + "\n" + strings.Join(counts, "\n"))
	}
	if b.failures > 0 {
		fmt.Printf("\n%d checks failed\n", b.failures)
		return 1
	}
	return 0
}

// client runs a client's scenes and returns its row in the table.
func (b *bench) client(c client) (string, error) {
	can := map[string]string{}
	for i, s := range c.scenes() {
		if b.part != "" && b.part != s.ability {
			continue
		}
		fmt.Printf("%s: %s\n", c.name(), s.ability)
		if err := b.scene(c, s, fmt.Sprintf("%s-%d", strings.ToLower(strings.ReplaceAll(c.name(), " ", "")), i)); err != nil {
			return "", err
		}
		switch {
		case b.failed:
			can[s.ability] = "**fails**"
		case can[s.ability] == "":
			can[s.ability] = cmp.Or(s.as, "yes")
		}
	}
	row := fmt.Sprintf("| %s | %s |", c.name(), b.version(c.program()))
	for _, a := range abilities {
		if can[a] == "" {
			can[a] = "–"
		}
		row += " " + can[a] + " |"
	}
	return row, nil
}

var versionNumber = regexp.MustCompile(`\d+\.\d+\.\d+`)

func (b *bench) version(program string) string {
	out, _ := b.command(30*time.Second, program, "--version").Output()
	return versionNumber.FindString(string(out))
}

func (b *bench) scene(c client, s scene, name string) (err error) {
	b.failed, b.name = false, name
	b.home, b.project = filepath.Join(b.dir, name, "home"), filepath.Join(b.dir, name, "project")
	for _, d := range []string{b.home, filepath.Join(b.home, "bin"), b.project} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	if err := os.Symlink(b.exe, filepath.Join(b.home, "bin/cachebro")); err != nil {
		return err
	}
	b.model, err = startModel(filepath.Join(b.dir, name, "requests"))
	if err != nil {
		return err
	}
	defer b.model.Close()
	if err := c.prepare(b); err != nil {
		return err
	}
	b.write("big.txt", numbered(300, "line"))
	b.write("other.txt", numbered(200, "other"))
	if b.bare {
		s.run(b)
		b.results[name] += b.model.bytes()
		return nil
	}
	if s.ability == inTheNet {
		if err := b.netted(); err != nil {
			return err
		}
		defer b.endNet()
		s.run(b)
		return nil
	}
	if out, err := b.cachebro("mount", b.project); err != nil {
		return fmt.Errorf("mount: %w\n%s", err, out)
	}
	defer b.umount()
	s.run(b)
	b.results[name] += b.model.bytes()
	b.check(b.model.baseless == 0, fmt.Sprintf("no stub without its text (%d requests with stubs)", b.model.stubs), fmt.Sprint(b.model.baseless))
	return nil
}

func (b *bench) umount() {
	cmd := b.command(30*time.Second, "cachebro", "umount", b.project)
	cmd.Dir = b.home
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Printf("  umount: %s\n", out) // for instance because another mount namespace holds a copy of the mount
	}
}

func (b *bench) fail() {
	b.failed = true
	b.failures++
}

// check prints the result of one check.
func (b *bench) check(ok bool, what, got string) {
	if b.bare {
		return
	}
	if ok {
		fmt.Printf("  ok    %s\n", what)
		return
	}
	b.fail()
	if len(got) > 600 {
		got = got[:600] + " …"
	}
	fmt.Printf("  FAIL  %s; got %q\n", what, got)
}

// line checks that the n-th call since play returned a stub, which is one line.
func (b *bench) line(n int, what string) {
	g := b.model.resultOf(n)
	b.check(strings.Contains(g, "cachebro: not repeated") && len(g) < 500, what+" is a line", g)
}

// full checks that the n-th call since play returned the whole text.
func (b *bench) full(n int, what string) {
	g := b.model.resultOf(n)
	b.check(strings.Contains(g, " 1 of a file") && strings.Contains(g, " 150 of a file") && !strings.Contains(g, "cachebro:"), what+" is the text", g)
}

// environ returns the environment of every program. It has a new home, and no settings of the
// client or person that runs this command.
func (b *bench) environ() []string {
	npm, run := b.npm, b.home
	if b.net {
		npm, run = b.home+"/npm", b.home+"/run"
	}
	env := []string{
		"HOME=" + b.home, "XDG_STATE_HOME=" + b.home + "/state", "XDG_CONFIG_HOME=" + b.home + "/.config", "XDG_RUNTIME_DIR=" + run,
		"PATH=" + b.home + "/bin:" + npm + "/node_modules/.bin:" + os.Getenv("PATH"), "TERM=dumb", "LANG=C.UTF-8",
		"OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1",
		"CODEX_HOME=" + b.home + "/codex", "GEMINI_CLI_TRUST_WORKSPACE=true", "GEMINI_API_KEY=none",
	}
	if b.model != nil {
		env = append(env, "GOOGLE_GEMINI_BASE_URL="+b.model.URL,
			"COPILOT_PROVIDER_BASE_URL="+b.model.URL+"/v1", "COPILOT_MODEL=m", "COPILOT_AUTO_UPDATE=false", "COPILOT_OFFLINE=true")
	}
	return env
}

// command returns a command that runs in the project and is killed after the limit.
func (b *bench) command(limit time.Duration, name string, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	path := name
	for _, dir := range []string{b.home + "/bin", b.npm + "/node_modules/.bin"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			path = filepath.Join(dir, name)
			break
		}
	}
	argv := append([]string{path}, args...)
	if b.net {
		argv = b.inContainer(append([]string{name}, args...))
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Cancel = func() error { cancel(); return cmd.Process.Kill() }
	cmd.WaitDelay = 5 * time.Second
	cmd.Dir, cmd.Env = b.project, b.environ()
	return cmd
}

func (b *bench) cachebro(args ...string) (string, error) {
	out, err := b.command(time.Minute, "cachebro", args...).CombinedOutput()
	return string(out), err
}

// logged runs a client and appends its output to client.log.
func (b *bench) logged(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	log, lerr := os.OpenFile(filepath.Join(b.home, "client.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if lerr == nil {
		_, _ = log.Write(out)
		_ = log.Close()
	}
	return err
}

func (b *bench) write(name, text string) {
	if err := os.WriteFile(filepath.Join(b.project, name), []byte(text), 0o644); err != nil {
		fmt.Println(err)
		b.fail()
	}
}

func (b *bench) read(name string) string {
	text, _ := os.ReadFile(filepath.Join(b.project, name))
	return string(text)
}

// numbered returns n lines that all differ.
func numbered(n int, word string) string {
	var s strings.Builder
	for i := range n {
		fmt.Fprintf(&s, "%s %d of a file that is read more than once\n", word, i+1)
	}
	return s.String()
}

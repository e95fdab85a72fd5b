package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"cachebro/scripts/contained"
)

// inTheNet is the column for clients that run under "cachebro run" on a machine where nothing can
// be mounted.
const inTheNet = "the net"

// sandboxedToo is the text in that column if another scene ran in the client's own sandbox.
const sandboxedToo = "also in its sandbox"

var lastPrompt = []string{"--prompt", "last"}

// netCase is a scene for a client on a machine where nothing can be mounted.
type netCase struct {
	as    string // see scene
	sh    func(command string) call
	words func(b *bench, text string) []string // command line that gives the client a prompt
	undo  []string
	// settings is the path, relative to the home, of a settings file that switches on the client's
	// own sandbox. text is the content of that file.
	settings, text string
	// inside means that the sandbox allows writes only to the project.
	inside bool
}

// scene makes the client's shell tool destroy files outside of the project, and undoes that with
// "cachebro undo".
func (n netCase) scene() scene {
	return scene{inTheNet, n.as, func(b *bench) {
		if n.settings != "" {
			name := filepath.Join(b.home, n.settings)
			err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(n.text), 0o644),
				os.Chown(filepath.Dir(name), contained.User, contained.User), os.Chown(name, contained.User, contained.User))
			b.check(err == nil, "the settings of the sandbox", fmt.Sprint(err))
		}
		state := func() string {
			now, err := contained.State(b.home, "other", "conf", "d1", "empty", "tree", "data", ".bashrc", "../project")
			if err != nil {
				b.check(false, "how everything is", err.Error())
			}
			return now
		}
		before := state()
		commands := []string{"rm big.txt && mkdir -p made && echo new >made/new.txt && sed -i s/other/OTHER/ other.txt && chmod 600 other.txt"}
		gone := []string{"project/big.txt"}
		if !n.inside {
			commands = append(commands, "rm -r ~/other/a && echo gone >~/.bashrc && sed -i s/on/off/ ~/conf && mv -T ~/d1 ~/empty && truncate -s 10 ~/data", "chmod -R go-rwx,u-w ~/tree")
			gone = append(gone, "other/a/f1", "d1/x")
		}
		var turns []turn
		for _, c := range commands {
			turns = append(turns, turn{Calls: []call{n.sh(c)}})
		}
		b.model.play(turns...)
		err := b.logged(b.command(3*time.Minute, "cachebro", append([]string{"run", "--"}, n.words(b, "destroy what is there")...)...))
		b.check(err == nil, "the prompt ends", fmt.Sprint(err))
		after := state()
		for i, name := range gone {
			b.check(strings.Contains(before, name) && !strings.Contains(after, name), name+" is gone", b.model.resultOf(min(i, 1)))
		}
		undo := append([]string{"undo", "--yes"}, n.undo...)
		out, err := b.cachebro(undo...)
		b.check(err == nil && state() == before, strings.Join(undo, " ")+" takes all back, byte by byte, with modes and links", contained.Difference(before, state())+out)
		out, err = b.cachebro("redo", "--yes")
		b.check(err == nil && state() == after, "redo", contained.Difference(after, state())+out)
		out, err = b.cachebro(undo...)
		b.check(err == nil && state() == before, "undo once more", contained.Difference(before, state())+out)
	}}
}

const netHome = `umask 022; mkdir -p other/a d1 empty tree/x/y run; i=0; while [ $i -lt 200 ]; do echo $i >other/a/f$i; i=$((i+1)); done
ln other/a/f1 other/a/hard; ln -s f2 other/a/soft; chmod 750 other/a/f3; echo 'export A=1' >.bashrc; chmod 640 .bashrc; echo 'mode = on' >conf
echo 1 >d1/x; echo 3 >tree/x/y/z; chmod 750 tree/x; head -c 300000 /dev/urandom >data; chmod 600 data; chmod 700 run`

// netted gives a scene's home to an ordinary user, who cannot mount anything. From then on b
// runs everything as that user.
func (b *bench) netted() error {
	cmd := exec.Command("sh", "-ec", netHome+fmt.Sprintf("\nrm bin/cachebro; cp %s bin/cachebro; mkdir npm; git -C ../project init -q; chown -R %d:%d . ../project", b.exe, contained.User, contained.User))
	cmd.Dir = b.home
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	// The user needs only search permission in the ancestors of the home.
	err := errors.Join(os.Chmod(b.dir, 0o755), os.Chmod(filepath.Dir(b.home), 0o755))
	b.net = true
	return err
}

// inContainer returns the command line that runs argv in a namespace where nothing can be mounted
// (package contained), in which the clients are visible in the home.
func (b *bench) inContainer(argv []string) []string {
	return contained.As([][2]string{{b.npm, filepath.Join(b.home, "npm")}}, argv...)
}

func (b *bench) endNet() {
	contained.EndDaemons(filepath.Join(b.home, "state"))
	b.net = false
}

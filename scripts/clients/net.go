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

// inTheNet is the column of a client that works where nothing can be mounted.
const inTheNet = "the net"

// netScene: the client destroys by its tool for commands what is not its own, where nothing
// can be mounted, and "cachebro undo" with these words takes it back. words are the client's
// command line with a prompt.
func netScene(as string, sh func(command string) call, words func(b *bench, text string) []string, undo ...string) scene {
	return scene{inTheNet, as, func(b *bench) {
		state := func() string {
			now, err := contained.State(b.home, "other", "conf", "d1", "empty", "tree", "data", ".bashrc", "../project")
			if err != nil {
				b.check(false, "how everything is", err.Error())
			}
			return now
		}
		before := state()
		b.model.play(turn{calls: []call{sh("rm -r ~/other/a && echo gone >~/.bashrc && sed -i s/on/off/ ~/conf && mv -T ~/d1 ~/empty && truncate -s 10 ~/data")}},
			turn{calls: []call{sh("chmod -R go-rwx,u-w ~/tree && rm big.txt && echo new >new.txt")}})
		line := append([]string{"run", "--"}, words(b, "destroy what is there")...)
		err := b.logged(b.command(3*time.Minute, "cachebro", line...))
		b.check(err == nil, "the prompt ends", fmt.Sprint(err))
		after := state()
		changed := func(name string) bool {
			return strings.Contains(before, name) && !strings.Contains(after, name)
		}
		b.check(changed("other/a/f1") && changed("d1/x") && changed("project/big.txt") && strings.Contains(after, "empty/x"), "the files are gone", b.model.given(0)+b.model.given(1))
		out, err := b.cachebro(append([]string{"undo", "--yes"}, undo...)...)
		b.check(err == nil && state() == before, "undo "+strings.Join(undo, " ")+" takes all back, byte by byte, with modes and links", contained.Difference(before, state())+out)
		out, err = b.cachebro("redo", "--yes")
		b.check(err == nil && state() == after, "redo", contained.Difference(after, state())+out)
		out, err = b.cachebro(append([]string{"undo", "--yes"}, undo...)...)
		b.check(err == nil && state() == before, "undo once more", contained.Difference(before, state())+out)
	}}
}

const netHome = `umask 022; mkdir -p other/a d1 empty tree/x/y run; i=0; while [ $i -lt 200 ]; do echo $i >other/a/f$i; i=$((i+1)); done
ln other/a/f1 other/a/hard; ln -s f2 other/a/soft; chmod 750 other/a/f3; echo 'export A=1' >.bashrc; chmod 640 .bashrc; echo 'mode = on' >conf
echo 1 >d1/x; echo 3 >tree/x/y/z; chmod 750 tree/x; head -c 300000 /dev/urandom >data; chmod 600 data; chmod 700 run`

// netted gives a scene's home to an ordinary user, who can mount nothing. What b runs from
// then on is run as that user.
func (b *bench) netted() error {
	cmd := exec.Command("sh", "-ec", netHome+fmt.Sprintf("\nrm bin/cachebro; cp %s bin/cachebro; mkdir npm; chown -R %d:%d . ../project", b.exe, contained.User, contained.User))
	cmd.Dir = b.home
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	// Above what is ours the user needs the way alone.
	err := errors.Join(os.Chmod(b.dir, 0o755), os.Chmod(filepath.Dir(b.home), 0o755))
	b.net = true
	return err
}

// inContainer is a command line there, where the clients are seen in the home.
func (b *bench) inContainer(argv []string) []string {
	return contained.As([][2]string{{b.npm, filepath.Join(b.home, "npm")}}, argv...)
}

func (b *bench) endNet() {
	contained.EndDaemons(filepath.Join(b.home, "state"))
	b.net = false
}

// Package fleettest runs real PostgreSQL servers for tests. A server has a new cluster in its own
// directory, with the collation that most databases have, listens only on a socket there, and is
// removed at the end of the test.
package fleettest

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// bins finds the directory with the programs of the newest installed server. Debian does not put
// them in PATH.
func bins() (string, bool) {
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.SortFunc(dirs, func(a, b string) int { return number(b) - number(a) })
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, "initdb")); err == nil {
			return dir, true
		}
	}
	p, err := exec.LookPath("initdb")
	return filepath.Dir(p), err == nil
}

func number(bin string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(bin)))
	return n
}

// Postgres starts a server and returns the address of an empty database. If none is installed, the
// test is skipped, or fails if CACHEBRO_NEED_POSTGRES is 1.
func Postgres(t testing.TB) string {
	t.Helper()
	bin, ok := bins()
	if !ok {
		const none = "PostgreSQL is not installed (Debian: apt-get install postgresql)"
		if os.Getenv("CACHEBRO_NEED_POSTGRES") == "1" {
			t.Fatal(none)
		}
		t.Skip(none)
	}
	// Use a short path, because the path of a socket can have at most 107 bytes, and a path in
	// TempDir is sometimes longer.
	dir, err := os.MkdirTemp("/tmp", "cachebro-pg-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	as := unprivileged(t, dir)
	cluster := filepath.Join(dir, "cluster")
	run(t, as, dir, filepath.Join(bin, "initdb"), "-D", cluster, "-U", "fleet", "-A", "trust", "-E", "UTF8", "--locale=C", "--locale-provider=icu", "--icu-locale=en-US", "--no-sync")
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(bin, "postgres"), "-D", cluster, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=60")
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = dir, log, log, as
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{}) // closed once the server has ended
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGQUIT) // makes the server and its children end at once
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
	})
	ready := exec.Command(filepath.Join(bin, "pg_isready"), "-q", "-h", dir)
	for end := time.Now().Add(30 * time.Second); exec.Command(ready.Path, ready.Args[1:]...).Run() != nil; time.Sleep(50 * time.Millisecond) {
		select {
		case <-ended:
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("postgres ended: %s", text)
		default:
		}
		if time.Now().After(end) {
			t.Fatal("postgres does not answer")
		}
	}
	return fmt.Sprintf("postgres://fleet@/postgres?host=%s", url.QueryEscape(dir))
}

// Bouncer starts pgbouncer in front of a server and returns its address. pgbouncer may use a
// different connection to the server for each transaction. If it is not installed, the test is
// skipped.
func Bouncer(t testing.TB, address string) string {
	t.Helper()
	bin, err := exec.LookPath("pgbouncer")
	if err != nil {
		t.Skip("pgbouncer is not installed (Debian: apt-get install pgbouncer)")
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "cachebro-pb-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	as := unprivileged(t, dir)
	config := filepath.Join(dir, "ini")
	text := fmt.Sprintf("[databases]\npostgres = user=fleet host=%s\n[pgbouncer]\nlisten_addr =\nunix_socket_dir = %s\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 3\nmax_client_conn = 200\n", u.Query().Get("host"), dir)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(bin, config)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = dir, log, log, as
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{}) // closed when pgbouncer has ended
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
	socket := filepath.Join(dir, ".s.PGSQL.6432")
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if _, err := os.Stat(socket); err == nil {
			break
		}
		if time.Now().After(end) {
			out, _ := os.ReadFile(log.Name())
			t.Fatalf("pgbouncer does not answer: %s", out)
		}
	}
	return fmt.Sprintf("postgres://fleet@/postgres?port=6432&host=%s", url.QueryEscape(dir))
}

// unprivileged returns the credentials of the user nobody if this process is root, because the
// server refuses to run as root. It makes that user the owner of dir.
func unprivileged(t testing.TB, dir string) *syscall.SysProcAttr {
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	uid, uerr := strconv.Atoi(u.Uid)
	gid, gerr := strconv.Atoi(u.Gid)
	if uerr != nil || gerr != nil {
		t.Fatalf("nobody is %s:%s", u.Uid, u.Gid)
	}
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}

func run(t testing.TB, as *syscall.SysProcAttr, dir, name string, args ...string) {
	t.Helper()
	c := exec.Command(name, args...)
	c.Dir, c.SysProcAttr = dir, as
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", filepath.Base(name), err, out)
	}
}

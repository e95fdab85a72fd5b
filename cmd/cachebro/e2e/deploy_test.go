package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cachebro/scripts/testkit/fleettest"
	"cachebro/scripts/testkit/remotetest"

	"go.yaml.in/yaml/v3"
)

// enforced returns a function that refuses requests that an Amazon policy does not allow.
func enforced(t *testing.T, policy string) func(*http.Request) remotetest.Fault {
	t.Helper()
	var p struct {
		Statement []struct {
			Effect   string
			Action   []string
			Resource string
		}
	}
	raw, err := os.ReadFile("../../../doc/deploy/" + policy)
	if err == nil {
		err = json.Unmarshal(raw, &p)
	}
	if err != nil {
		t.Fatal(err)
	}
	const bucket = "arn:aws:s3:::" + remotetest.Bucket
	return func(r *http.Request) remotetest.Fault {
		key := strings.TrimPrefix(r.URL.Path, "/"+remotetest.Bucket)
		action, resource := map[string]string{"GET": "s3:GetObject", "HEAD": "s3:GetObject", "PUT": "s3:PutObject", "DELETE": "s3:DeleteObject"}[r.Method], bucket+key
		if strings.Trim(key, "/") == "" && r.URL.Query().Get("list-type") != "" {
			action, resource = "s3:ListBucket", bucket
		}
		for _, s := range p.Statement {
			prefix, any := strings.CutSuffix(s.Resource, "*")
			fits := resource == s.Resource || any && strings.HasPrefix(resource, prefix)
			if s.Effect == "Allow" && slices.Contains(s.Action, action) && fits {
				return remotetest.None
			}
		}
		return remotetest.Forbidden
	}
}

// fleetBinary builds cachebro-fleet for the test and returns its directory.
func fleetBinary(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if out, err := exec.Command("go", "build", "-o", filepath.Join(dir, "cachebro-fleet"), "cachebro/cmd/cachebro-fleet").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// TestIndexersBesideSenders: three indexers behind a pgbouncer import what three machines send,
// while old contents are dropped from the bucket. The indexers stop and start again. If
// CACHEBRO_FLEET_FOR is set to a duration, they are killed instead. In the end the database has
// everything that the bucket has, once.
func TestIndexersBesideSenders(t *testing.T) {
	lasts, end := 3*time.Second, syscall.SIGTERM
	if s := os.Getenv("CACHEBRO_FLEET_FOR"); s != "" {
		var err error
		end = syscall.SIGKILL // for a minute, the other indexers skip what a killed one had begun
		lasts, err = time.ParseDuration(s)
		if err != nil {
			t.Fatal(err)
		}
	}
	db := fleettest.Bouncer(t, fleettest.Postgres(t))
	srv := remotetest.New(t)
	program := filepath.Join(fleetBinary(t), "cachebro-fleet")
	var fleet []*project
	for i := range 3 {
		p := newProject(t, map[string]string{"src/a.txt": "a\n", "src/b/c.txt": "c\n"})
		p.let(srv)
		p.mount()
		p.scanned()
		p.called(fmt.Sprint("agent", i), "remote", "add", srv.Address("app"), "--dir", p.dir)
		fleet = append(fleet, p)
	}
	index := func(args ...string) *exec.Cmd {
		cmd := exec.Command(program, append([]string{"index", db, "--bucket", srv.Address("app")}, args...)...)
		cmd.Env = fleet[0].env
		return cmd
	}
	until := time.Now().Add(lasts)
	var wg sync.WaitGroup
	var kills, indexers, prunes atomic.Int32
	for i, p := range fleet {
		r := rand.New(rand.NewSource(int64(i)))
		wg.Go(func() { p.work(r, until, &kills) })
		wg.Go(func() {
			for time.Now().Before(until) {
				cmd := index("--every", "1s")
				if err := cmd.Start(); err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Duration(500+indexers.Load()*370%4000) * time.Millisecond)
				_ = cmd.Process.Signal(end)
				_ = cmd.Wait()
				indexers.Add(1)
			}
		})
	}
	wg.Go(func() {
		for time.Now().Before(until) {
			srv.Pass(40 * time.Minute)
			if _, err := fleet[0].try("remote", "prune", "--older", "1h", "--grace", "1h", "--dir", fleet[0].dir); err == nil {
				prunes.Add(1)
			}
		}
	})
	wg.Wait()
	for _, p := range fleet {
		eventually(t, 3*time.Minute, "all is sent", func() bool {
			out, err := p.try("remote", "send", "--dir", p.dir)
			return err == nil && strings.Contains(out, "not yet:  0 versions")
		})
	}
	eventually(t, 3*time.Minute, "all is brought in", func() bool { // a killed indexer holds its machine for a minute
		out, err := index().CombinedOutput()
		return err == nil && strings.HasSuffix(string(out), "3 machines, 0 new versions from 0 segments\n")
	})
	cmd := exec.Command("sh", "-ec", `"$0" audit export "$1" >"$3"; "$0" audit verify "$3" --bucket "$2"`, program, db, srv.Address("app"), filepath.Join(t.TempDir(), "audit"))
	cmd.Env = fleet[0].env
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "whole: ") || strings.Contains(string(out), "whole: 0 versions") {
		t.Errorf("the audit: %v: %s", err, out)
	}
	if out := fleet[0].cb("remote", "fsck", "--whole", "--dir", fleet[0].dir); !strings.Contains(out, " of 3 machines: 0 problems") {
		t.Errorf("remote fsck: %s", out)
	}
	if indexers.Load() == 0 || prunes.Load() == 0 {
		t.Errorf("%d indexers ended, %d times it was pruned: too few to say anything", indexers.Load(), prunes.Load())
	}
	t.Logf("%d indexers ended, %d daemons killed, %d prunes; %s", indexers.Load(), kills.Load(), prunes.Load(), out)
}

// TestPlatformEngineer follows doc/fleet.md from the top and does nothing else. The services of the
// compose file run on this machine, with the same commands and environment. The bucket allows only
// what the policies in doc/deploy allow.
func TestPlatformEngineer(t *testing.T) {
	db := fleettest.Postgres(t)
	srv := remotetest.New(t)
	p := newProject(t, map[string]string{"src/main.go": "package main\n", ".env": "KEY=secret\n"})
	p.let(srv)
	p.mount()
	p.scanned()
	p.within("run", "--", "sh", "-c", "echo '// more' >>src/main.go")

	bin := fleetBinary(t)
	if err := os.Symlink(binary, filepath.Join(bin, "cachebro")); err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := free.Addr().String()
	free.Close()

	var compose struct {
		Services map[string]struct {
			Command     []string
			Environment map[string]string
		}
	}
	raw, err := os.ReadFile("../../../doc/deploy/compose.yml")
	if err == nil {
		err = yaml.Unmarshal(raw, &compose)
	}
	if err != nil {
		t.Fatal(err)
	}
	env := append(p.env, "PATH="+bin+":"+os.Getenv("PATH"))
	given := map[string]string{"FLEET_PASSWORD": "p", "AWS_ACCESS_KEY_ID": srv.Env()["AWS_ACCESS_KEY_ID"], "AWS_SECRET_ACCESS_KEY": srv.Env()["AWS_SECRET_ACCESS_KEY"]}
	names := strings.NewReplacer("postgres://db/fleet-2", "'"+strings.Replace(db, "/postgres?", "/fleet-2?", 1)+"'", "postgres://db/fleet", "'"+db+"'", "s3://histories/app", "'"+srv.Address("app")+"'",
		"http://localhost:9480", "http://"+at, "createdb fleet-2", "psql -q '"+db+"' -c 'create database \"fleet-2\"'")
	service := func(name string) (args, vars []string) {
		s := compose.Services[name]
		for _, a := range s.Command {
			a = strings.Replace(a, "postgres://fleet@db/fleet", db, 1)
			a = strings.Replace(a, "s3://histories/app?endpoint=http://bucket:7070&path-style=1&region=us-east-1", srv.Address("app"), 1)
			args = append(args, strings.Replace(a, ":9480", at, 1))
		}
		for name, v := range s.Environment {
			vars = append(vars, name+"="+os.Expand(v, func(n string) string { return given[n] }))
		}
		return args, append(vars, "PATH="+os.Getenv("PATH"), "HOME="+p.base)
	}
	if c := compose.Services["bucket"]; c.Environment["ROOT_ACCESS_KEY"] == "" || len(c.Command) == 0 || compose.Services["db"].Environment["POSTGRES_DB"] != "fleet" {
		t.Errorf("the services: %+v", compose.Services)
	}

	doc, err := os.ReadFile("../../../doc/fleet.md")
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{}
	run := func(script string) {
		t.Helper()
		for _, line := range strings.Split(strings.TrimSpace(script), "\n") {
			line, _, _ = strings.Cut(line, "  #")
			if strings.HasPrefix(line, "docker ") {
				continue
			}
			policy := "iam-read.json"
			if strings.HasPrefix(line, "cachebro ") {
				policy = "iam-send.json"
			}
			srv.Break(enforced(t, policy))
			cmd := exec.Command("sh", "-ec", names.Replace(line))
			cmd.Dir, cmd.Env = p.dir, env
			out, err := cmd.CombinedOutput()
			srv.Break(nil)
			if err != nil {
				t.Fatalf("%s: %v: %s", line, err, out)
			}
			said[strings.Join(strings.Fields(line), " ")] = string(out)
		}
	}
	indexing := false
	var rest []string
	for i, block := range strings.Split(string(doc), "\n```") {
		switch script, ok := strings.CutPrefix(block, "sh\n"); {
		case i%2 == 0:
		case ok && strings.Contains(script, "curl"):
			args, vars := service("index")
			cmd := exec.Command(filepath.Join(bin, "cachebro-fleet"), args...)
			cmd.Env = vars
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			indexing = true
			t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
			p.eventually("the index is well", func() string {
				r, err := http.Get("http://" + at + "/healthz")
				if err != nil {
					return err.Error()
				}
				defer r.Body.Close()
				if r.StatusCode != http.StatusOK {
					return r.Status
				}
				return ""
			})
			run(script)
		case ok:
			run(script)
			rest = append(rest, script)
		default:
			sql, isSQL := strings.CutPrefix(block, "sql\n")
			if !isSQL {
				t.Errorf("a block that nobody runs: %s", block)
				continue
			}
			cmd := exec.Command("psql", "-q", "-v", "ON_ERROR_STOP=1", db, "-c", sql)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s", sql, err, out)
			}
		}
	}
	if !indexing || len(rest) != 3 {
		t.Errorf("%d blocks of commands; the services ran: %v", len(rest), indexing)
	}
	for line, want := range map[string]string{
		"cachebro remote secrets": ".env",
		"cachebro-fleet index postgres://db/fleet --bucket s3://histories/app":             "1 machine, ",
		"cachebro-fleet log postgres://db/fleet --machine all --since 1h":                  "src/main.go",
		"cachebro-fleet blame postgres://db/fleet --bucket s3://histories/app src/main.go": "// more",
		"cachebro-fleet audit verify june.audit":                                           "whole: ",
		"cachebro-fleet audit verify june.audit --bucket s3://histories/app":               "whole: ",
		"cachebro-fleet prune postgres://db/fleet --keep 90d":                              "deleted: 0 days",
		"cachebro-fleet index postgres://db/fleet-2 --bucket s3://histories/app":           "1 machine, ",
		"curl -fsS http://localhost:9480/metrics":                                          "cachebro_fleet_machines_problem",
	} {
		if !strings.Contains(said[line], want) {
			t.Errorf("%s says %q, and not %q", line, said[line], want)
		}
	}
	args, vars := service("prune")
	prune := exec.Command(filepath.Join(bin, "cachebro-fleet"), args...)
	prune.Env = vars
	if out, err := prune.CombinedOutput(); err != nil || !strings.Contains(string(out), "deleted: 0 days") {
		t.Errorf("%q: %v: %s", args, err, out)
	}

	// The bucket is lost. The machine says so, and sends everything again under another id.
	was := p.machine()
	for _, key := range srv.Objects() {
		srv.Set(key, nil)
	}
	p.write("after.txt", "after\n")
	if out, err := p.try("remote", "send", "--dir", p.dir); err == nil {
		t.Errorf("the bucket is empty, and nobody notices: %s", out)
	}
	run(rest[len(rest)-1])
	if p.machine() == was {
		t.Error("it goes on under the id of which the bucket knows nothing")
	}
	srv.Break(enforced(t, "iam-prune.json"))
	p.cb("remote", "prune", "--older", "1h", "--grace", "1h", "--dir", p.dir)
	srv.Break(nil)
	run("cachebro-fleet index postgres://db/fleet-2 --bucket s3://histories/app || test $? = 1")
	run("cachebro-fleet log postgres://db/fleet-2 --path after.txt")
	if !strings.Contains(said["cachebro-fleet log postgres://db/fleet-2 --path after.txt"], "after.txt") {
		t.Error("what was sent again is not brought in")
	}
}

// TestManifests: every service of compose.yml has a container in kubernetes.yml with the same image
// and arguments.
func TestManifests(t *testing.T) {
	raw, err := os.ReadFile("../../../doc/deploy/compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	var compose struct {
		Services map[string]struct {
			Image   string
			Command []string
		}
	}
	if err := yaml.Unmarshal(raw, &compose); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open("../../../doc/deploy/kubernetes.yml")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	type pod struct {
		Spec struct {
			Containers []struct {
				Image string
				Args  []string
			}
		}
	}
	images := map[string][]string{}
	dec := yaml.NewDecoder(f)
	for {
		var o struct {
			Kind string
			Spec struct {
				Template    pod
				JobTemplate struct{ Spec struct{ Template pod } } `yaml:"jobTemplate"`
			}
		}
		if dec.Decode(&o) != nil {
			break
		}
		for _, c := range append(o.Spec.Template.Spec.Containers, o.Spec.JobTemplate.Spec.Template.Spec.Containers...) {
			args := strings.NewReplacer("fleet-db", "db", "fleet-bucket", "bucket").Replace(strings.Join(c.Args, " "))
			images[c.Image] = append(images[c.Image], args)
		}
	}
	for name, s := range compose.Services {
		if !slices.Contains(images[s.Image], strings.Join(s.Command, " ")) {
			t.Errorf("%s: %s %q is not in kubernetes.yml: %q", name, s.Image, s.Command, images)
		}
	}
}

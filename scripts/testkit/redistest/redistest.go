// Package redistest starts real Redis servers on the loopback, for tests and benchmarks,
// either a single one or a cluster of three. Servers store nothing on disk and end with Stop.
package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrNone means that redis-server is not installed on this machine.
var ErrNone = errors.New("redis-server is not installed (Debian: apt-get install redis-server)")

// startWithin is how long a server, or the nodes of a cluster together, may take to start.
const startWithin = 30 * time.Second

// Server is a running redis-server.
type Server struct {
	Port int
	Log  string // path of the log file
	dir  string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// Start runs a server with its files in dir. args are appended to its command line.
func Start(dir string, args ...string) (*Server, error) {
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, ErrNone
	}
	var last error
	for range 5 { // try again with another port, because a process may have taken this one in between
		var ports [2]int
		for i := range ports {
			ports[i], err = freePort()
			if err != nil {
				return nil, err
			}
		}
		sub, err := os.MkdirTemp(dir, "redis-")
		if err != nil {
			return nil, err
		}
		s := &Server{Port: ports[0], dir: sub, Log: filepath.Join(sub, "log"), done: make(chan struct{})}
		all := append([]string{"--port", strconv.Itoa(s.Port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", sub,
			"--logfile", s.Log, "--cluster-port", strconv.Itoa(ports[1])}, args...)
		s.cmd = exec.Command(bin, all...)
		if err := s.cmd.Start(); err != nil {
			return nil, err
		}
		go func() { _ = s.cmd.Wait(); close(s.done) }()
		last = s.await(args)
		if last == nil {
			return s, nil
		}
		s.Stop()
	}
	return nil, last
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// await waits until the server answers.
func (s *Server) await(args []string) error {
	c := redis.NewClient(&redis.Options{Addr: s.Addr(), Password: argument(args, "--requirepass"), MaxRetries: -1})
	defer c.Close()
	var err error
	for end := time.Now().Add(startWithin); time.Now().Before(end); {
		err = c.Ping(context.Background()).Err()
		if err == nil {
			return nil
		}
		select {
		case <-s.done:
			text, _ := os.ReadFile(s.Log)
			return fmt.Errorf("redis-server ended: %s", text)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return fmt.Errorf("redis-server does not answer: %w", err)
}

func argument(args []string, name string) string {
	for i, a := range args {
		if a == name && i+1 < len(args) {
			return args[i+1]
		}
	}
	return ""
}

// Addr returns the address in the form HOST:PORT.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)) }

// URL returns the address in the form in which it is given in a setting.
func (s *Server) URL() string { return "redis://" + s.Addr() }

// Restart runs an ended server again, at the same address and empty. Restart retries, because
// another process may use the port for a moment as the local end of a connection.
func (s *Server) Restart() (err error) {
	for end := time.Now().Add(startWithin); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		s.cmd, s.done = exec.Command(s.cmd.Path, s.cmd.Args[1:]...), make(chan struct{})
		err = s.cmd.Start()
		if err != nil {
			return err
		}
		go func() { _ = s.cmd.Wait(); close(s.done) }()
		err = s.await(s.cmd.Args)
		if err == nil {
			return nil
		}
		s.Stop()
	}
	return err
}

// Stop kills the server and waits until it has ended.
func (s *Server) Stop() {
	_ = s.cmd.Process.Kill()
	<-s.done
}

// Cluster consists of three nodes that share the slots. If one node is lost, only its own slots are
// lost.
type Cluster struct{ Nodes []*Server }

// StartCluster runs a cluster with its files in dir.
func StartCluster(dir string) (*Cluster, error) {
	c := &Cluster{}
	for range 3 {
		s, err := Start(dir, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-require-full-coverage", "no")
		if err != nil {
			c.Stop()
			return nil, err
		}
		c.Nodes = append(c.Nodes, s)
	}
	if err := c.join(); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

// join makes the nodes meet and gives each a third of the slots.
func (c *Cluster) join() error {
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	const slots = 16384
	for i, s := range c.Nodes {
		n := redis.NewClient(&redis.Options{Addr: s.Addr()})
		defer n.Close()
		if err := n.ClusterAddSlotsRange(ctx, i*slots/3, (i+1)*slots/3-1).Err(); err != nil {
			return fmt.Errorf("give slots: %w", err)
		}
		first := c.Nodes[0]
		if err := n.Do(ctx, "cluster", "meet", "127.0.0.1", first.Port, argument(first.cmd.Args, "--cluster-port")).Err(); i > 0 && err != nil {
			return fmt.Errorf("meet: %w", err)
		}
	}
	for _, s := range c.Nodes {
		n := redis.NewClient(&redis.Options{Addr: s.Addr()})
		defer n.Close()
		for {
			info, err := n.ClusterInfo(ctx).Result()
			if err == nil && strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_slots_ok:16384") && strings.Contains(info, "cluster_known_nodes:3") {
				break
			}
			if ctx.Err() != nil {
				return fmt.Errorf("the cluster does not come up: %s", info)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	return nil
}

// URL returns an address that names all nodes.
func (c *Cluster) URL() string {
	u := c.Nodes[0].URL()
	for i, s := range c.Nodes[1:] {
		u += map[bool]string{true: "?", false: "&"}[i == 0] + "addr=" + s.Addr()
	}
	return u
}

// Stop ends every node.
func (c *Cluster) Stop() {
	for _, s := range c.Nodes {
		s.Stop()
	}
}

package results

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// hostile lists replies that Redis never gives. The first of them crashed the daemon.
var hostile = map[string]string{
	"a string as long as can be":       "$9223372036854775800\r\n",
	"a string of 4 GB":                 "$4294967296\r\n",
	"a negative string":                "$-5\r\n",
	"a string without a length":        "$?\r\n",
	"an array as long as can be":       "*9223372036854775807\r\n",
	"an array of a thousand millions":  "*1000000000\r\n",
	"a negative array":                 "*-7\r\n",
	"arrays in arrays":                 strings.Repeat("*1\r\n", 1<<20),
	"maps in maps":                     strings.Repeat("%1\r\n+k\r\n", 1<<19),
	"a map as long as can be":          "%4611686018427387904\r\n",
	"attributes before attributes":     strings.Repeat("|0\r\n", 1<<20),
	"a push as long as can be":         ">9223372036854775807\r\n$10\r\n",
	"a verbatim string as long as can": "=9223372036854775800\r\n",
	"an error as long as can be":       "!9223372036854775800\r\n",
	"a line without an end":            "+" + strings.Repeat("x", 8<<20),
	"a number that is none":            ":12three\r\n",
	"nothing but line ends":            strings.Repeat("\r\n", 1000),
	"bytes":                            "\x00\xff\xfe\r\n\x80\r\n",
}

// fakeRedis answers every command with reply. If greet is set, it answers the first commands of a
// connection as Redis does.
func fakeRedis(t *testing.T, greet bool, reply string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				in := bufio.NewReader(c)
				for {
					line, err := in.ReadString('\n')
					if err != nil {
						return
					}
					if !strings.HasPrefix(line, "*") {
						continue
					}
					if _, err := in.ReadString('\n'); err != nil { // the length of the command's name
						return
					}
					name, err := in.ReadString('\n')
					if err != nil {
						return
					}
					answer := reply
					switch strings.ToLower(strings.TrimSpace(name)) {
					case "hello":
						if greet {
							answer = "-ERR unknown command\r\n"
						}
					case "client", "ping":
						if greet {
							answer = "+OK\r\n"
						}
					}
					if _, err := io.WriteString(c, answer); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// A server with wrong answers causes misses, and nothing else.
func TestHostileRedis(t *testing.T) {
	for name, reply := range hostile {
		for _, greet := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				for _, query := range []string{"", "?cluster=true"} {
					r, err := newRedis("redis://"+fakeRedis(t, greet, reply)+query, 2*time.Second)
					if err != nil {
						t.Fatal(err)
					}
					ctx := context.Background()
					if _, ok, _ := r.Get(ctx, "k"); ok {
						t.Error("it was taken for an entry")
					}
					if err := r.Set(ctx, "k", Entry{Value: []byte("v")}, time.Minute); err != nil {
						t.Error(err)
					}
					_ = r.Clear(ctx)
					_ = r.Close()
				}
			})
		}
	}
}

// Real replies of Redis are accepted, however they are split.
func TestGuardPasses(t *testing.T) {
	all := "+OK\r\n-ERR no\r\n:12\r\n$-1\r\n$0\r\n\r\n$5\r\na\r\nbc\r\n*-1\r\n*0\r\n*2\r\n$1\r\n0\r\n*3\r\n$1\r\na\r\n$1\r\nb\r\n+c\r\n" +
		"%2\r\n+server\r\n+redis\r\n+modules\r\n*1\r\n%1\r\n+name\r\n+x\r\n_\r\n#t\r\n,1.5\r\n(123456789012345678901\r\n=7\r\ntxt:abc\r\n~1\r\n:1\r\n"
	for step := 1; step < len(all); step++ {
		var g guard
		for i := 0; i < len(all); i += step {
			if err := g.see([]byte(all[i:min(i+step, len(all))])); err != nil {
				t.Fatalf("in steps of %d, at %d: %v", step, i, err)
			}
		}
		if len(g.open) != 0 || g.bulk != 0 || g.bytes != 0 || len(g.line) != 0 {
			t.Fatalf("in steps of %d something is left: %+v", step, g)
		}
	}
}

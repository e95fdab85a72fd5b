package cmdline

import (
	"slices"
	"strings"
	"testing"
)

// secrets lists command lines, each with the text that must be masked.
var secrets = []struct {
	args   []string
	secret string
}{
	{[]string{"curl", "-H", "Authorization: Bearer s3cr3tvalue", "https://x"}, "s3cr3tvalue"},
	{[]string{"curl", "-H", "X-Api-Key: s3cr3tvalue", "https://x"}, "s3cr3tvalue"},
	{[]string{"curl", "-u", "me:s3cr3tvalue", "https://x"}, "s3cr3tvalue"},
	{[]string{"curl", "-ume:s3cr3tvalue", "https://x"}, "s3cr3tvalue"},
	{[]string{"curl", "--user=me:s3cr3tvalue", "https://x"}, "s3cr3tvalue"},
	{[]string{"git", "clone", "https://me:s3cr3tvalue@host/r.git"}, "s3cr3tvalue"},
	{[]string{"git", "clone", "https://s3cr3tvalue@host/r.git"}, "s3cr3tvalue"},
	{[]string{"deploy", "--password", "s3cr3tvalue"}, "s3cr3tvalue"},
	{[]string{"deploy", "--password=s3cr3tvalue"}, "s3cr3tvalue"},
	{[]string{"deploy", "--api-key", "s3cr3tvalue"}, "s3cr3tvalue"},
	{[]string{"deploy", "-token=s3cr3tvalue"}, "s3cr3tvalue"},
	{[]string{"env", "PGPASSWORD=s3cr3tvalue", "psql"}, "s3cr3tvalue"},
	{[]string{"env", "AWS_SECRET_ACCESS_KEY=s3cr3tvalue", "aws"}, "s3cr3tvalue"},
	{[]string{"env", "MYSQL_PWD=s3cr3tvalue", "mysql"}, "s3cr3tvalue"},
	{[]string{"mysql", "-uroot", "-ps3cr3tvalue"}, "s3cr3tvalue"},
	{[]string{"sshpass", "-p", "s3cr3tvalue", "ssh", "h"}, "s3cr3tvalue"},
	{[]string{"redis-cli", "-a", "s3cr3tvalue"}, "s3cr3tvalue"},
	{[]string{"openssl", "rsa", "-passin", "pass:s3cr3tvalue"}, "s3cr3tvalue"},
	{[]string{"x", "ghp_0123456789abcdefghijABCDEFGHIJ012345"}, "0123456789"},
	{[]string{"x", "sk-ant-api03-abcdefghijklmnop"}, "abcdefghijklmnop"},
	{[]string{"x", "AKIAIOSFODNN7EXAMPLE"}, "IOSFODNN7"},
	{[]string{"x", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-def"}, "eyJzdWIi"},
	{[]string{"x", "xoxb-123456789012-abcdef"}, "123456789012"},
	{[]string{"x", "wJalrXUtnFEMI/K7MDENG", "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY"}, "aB3dE5fG7"},
	{[]string{"x", "-----BEGIN RSA PRIVATE KEY-----\nMIIEs3cr3t\n-----END RSA PRIVATE KEY-----"}, "MIIEs3cr3t"},
	{[]string{"sed", "-i", "s/old/s3cr3tvalue/", ".env"}, "s3cr3tvalue"},
	{[]string{"sed", "-i", "s/old/s3cr3tvalue/", "config/credentials.json"}, "s3cr3tvalue"},
	{[]string{"sh", "-c", `echo "KEY=s3cr3tvalue" > .env; ls`}, "s3cr3tvalue"},
	{[]string{"bash", "-c", `curl -H "Authorization: Bearer s3cr3tvalue" https://x | tee out`}, "s3cr3tvalue"},
	{[]string{"bash", "-c", `export TOKEN='s3cr3tvalue two'; make`}, "s3cr3tvalue"},
	{[]string{"bash", "-c", `mysql -ps3cr3tvalue < a.sql`}, "s3cr3tvalue"},
	{[]string{"bash", "-c", `psql "postgres://me:s3cr3tvalue@db/x"`}, "s3cr3tvalue"},
	{[]string{"bash", "-c", `deploy --password "s3cr3tvalue more"`}, "s3cr3tvalue"},
	{[]string{"bash", "-c", `curl -d '{"password": "s3cr3tvalue"}' https://x`}, "s3cr3tvalue"},
	{[]string{"bash", "-c", "cd /p; cat > .env <<E\nA=s3cr3tvalue\nE\n"}, "s3cr3tvalue"},
}

func TestMask(t *testing.T) {
	for _, c := range secrets {
		got := strings.Join(Mask(c.args), " ")
		if strings.Contains(got, c.secret) {
			t.Errorf("%q keeps its secret: %q", c.args, got)
		}
		if base := c.args[0]; !strings.HasPrefix(got, base) {
			t.Errorf("%q loses its program: %q", c.args, got)
		}
		if got := Text(strings.Join(c.args, " ")); len(c.args) > 3 && strings.Contains(got, c.secret) && c.args[1] != "-c" {
			t.Errorf("the text of %q keeps its secret: %q", c.args, got)
		}
	}
}

// A text without a secret is not changed.
func TestMaskLeaves(t *testing.T) {
	for _, args := range [][]string{
		{"sed", "-i", "s/Transport/Transporter/", "http/a.go", "http/b.go"},
		{"git", "commit", "--author", "Me <me@x>", "-m", "Mask the token bucket"},
		{"git", "checkout", "795f4c4aa1bb2cc3dd4ee5ff60718293a4b5c6d7"},
		{"git", "clone", "ssh://git@host/r.git"},
		{"go", "test", "-run", "TestPassword", "./auth/..."},
		{"mv", "tokens.go", "store/tokens/tokens.go"},
		{"gcc", "-O2", "-I/usr/include", "-o", "x.o", "-c", "x.c"},
		{"bash", "-c", "cd /p && make -j4 && ./run --port=8080 2>&1 | tail -5"},
		{"tar", "xzf", "go1.25.0.linux-amd64.tar.gz"},
		{"docker", "run", "--name", "x", "alpine"},
	} {
		if got := Mask(args); !slices.Equal(got, args) {
			t.Errorf("%q becomes %q", args, got)
		}
	}
}

func TestPack(t *testing.T) {
	many := []string{"sed", "-i", "s/a/b/"}
	for range 1000 {
		many = append(many, "http/some/file.go")
	}
	for _, c := range []struct {
		args []string
		cut  bool
	}{{many, false}, {many[:4], true}, {[]string{"sh", "-c", strings.Repeat("é", 3000)}, false}, {[]string{strings.Repeat("x", 5000)}, false}, {nil, true}} {
		s := Pack(c.args, c.cut)
		if len(s) > Max || !strings.HasSuffix(s, More) {
			t.Errorf("%d arguments take %d bytes and end with %q", len(c.args), len(s), s[max(0, len(s)-8):])
		}
	}
	for _, args := range [][]string{{"a"}, {"a", "", "b c"}, {"a", "b\nc"}} {
		if got := Unpack(Pack(args, false)); !slices.Equal(got, args) {
			t.Errorf("%q comes back as %q", args, got)
		}
	}
}

func TestShow(t *testing.T) {
	many := []string{"/usr/bin/sed", "-i", "s/Transport/Transporter/"}
	for range 70 {
		many = append(many, "http/some/file.go")
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"/bin/mv", "a b", "c"}, "mv 'a b' c"},
		{[]string{"bash", "-c", "echo hi\n\n# a comment\n  ls"}, "echo hi; ls"},
		{[]string{"/bin/bash", "-lc", "make"}, "make"},
		{[]string{"bash", "build.sh", "-c", "x"}, "bash build.sh -c x"},
		{[]string{"-bash"}, "bash"},
		{many, "sed -i s/Transport/Transporter/ http/some/file.go … (69 more)"},
		{append(many[:4:4], More), "sed -i s/Transport/Transporter/ http/some/file.go …"},
		{[]string{"sh", "-c", strings.Repeat("é", 60)}, strings.Repeat("é", 33) + More},
		{nil, ""},
	} {
		if got := Show(c.args, 70); got != c.want {
			t.Errorf("%q is shown as %q, want %q", c.args, got, c.want)
		}
	}
}

// Any command line is masked in linear time and without a panic.
func FuzzMask(f *testing.F) {
	for _, c := range secrets {
		f.Add(strings.Join(c.args, "\x00"))
	}
	f.Fuzz(func(t *testing.T, s string) {
		if s := Pack(Mask(strings.Split(s, "\x00")), false); len(s) > Max {
			t.Errorf("%d bytes", len(s))
		}
		Text(s)
		Show(strings.Split(s, "\x00"), 60)
	})
}

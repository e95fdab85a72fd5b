package remote

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cachebro/scripts/testkit/remotetest"
)

// Keys are rotated while a daemon runs. The keys in its environment are refused from then on. The
// keys in the profile are found without a new mount, even after they change again.
func TestRotatedKeys(t *testing.T) {
	srv := remotetest.New(t)
	p := place(t, srv, "app")
	file := filepath.Join(t.TempDir(), "credentials")
	profile := func(key string) {
		t.Helper()
		if err := os.WriteFile(file, []byte("[default]\naws_access_key_id = "+key+"\naws_secret_access_key = "+remotetest.Secret+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	profile("profile-one")
	good := remotetest.Key
	srv.Break(func(r *http.Request) remotetest.Fault {
		if strings.Contains(r.Header.Get("Authorization"), "Credential="+good+"/") {
			return remotetest.None
		}
		return remotetest.UnknownKey
	})
	b, err := Dial(p)
	if err != nil {
		t.Fatal(err)
	}
	// works returns how many attempts it takes until a request is accepted.
	works := func() int {
		t.Helper()
		for n := range 7 {
			_, err := b.Machines(t.Context())
			if err == nil {
				return n
			}
			if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "tried credentials: ") || Hint(err) == "" {
				t.Fatalf("a refusal: %v", err)
			}
		}
		return -1
	}
	if n := works(); n != 0 {
		t.Errorf("%d tries with the keys of the environment", n)
	}
	good = "profile-one"
	if n := works(); n != 1 {
		t.Errorf("%d tries until the profile's keys were found", n)
	}
	good = "profile-two"
	_, err = b.Machines(t.Context())
	if err == nil || !strings.Contains(err.Error(), "the environment (key ") || !strings.Contains(err.Error(), "the profile (key prof…-one)") {
		t.Errorf("what was tried is not said: %v", err)
	}
	profile("profile-two")
	if n := works(); n < 0 {
		t.Error("the profile was not read again")
	}
}

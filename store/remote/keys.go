package remote

import (
	"cmp"
	"fmt"
	"strings"
	"sync"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

// keySource looks up credentials in the environment, in the profile (which may name a command,
// credential_process), and in the machine's role. They may expire while a daemon runs. After a
// refusal every source is read again, starting with the one after the refused source.
type keySource struct {
	mu      sync.Mutex // guards the fields below; a leaf lock
	sources []namedSource
	first   int // the source to query first
	used    int // the source of the last credentials
	refused []string
}

type namedSource struct {
	name string
	credentials.Provider
}

// RetrieveWithCredContext returns the credentials of the first source that has any.
func (k *keySource) RetrieveWithCredContext(cc *credentials.CredContext) (credentials.Value, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.sources {
		k.used = (k.first + i) % len(k.sources)
		v, err := k.sources[k.used].RetrieveWithCredContext(cc)
		if err == nil && v.AccessKeyID != "" && v.SecretAccessKey != "" {
			return v, nil
		}
	}
	return credentials.Value{SignerType: credentials.SignatureAnonymous}, nil
}

// Retrieve is for callers without a context.
func (k *keySource) Retrieve() (credentials.Value, error) { return k.RetrieveWithCredContext(nil) }

// IsExpired reports whether the credentials have expired, according to their source.
func (k *keySource) IsExpired() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.sources[k.used].IsExpired()
}

// refuse records that credentials were refused, and returns a text about the refused sources. The
// next request starts with another source.
func (k *keySource) refuse(v credentials.Value) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.sources[k.used].name
	if id := v.AccessKeyID; id == "" {
		s = "none were found"
	} else {
		s += fmt.Sprintf(" (key %.4s…%s)", id, id[max(len(id)-4, min(len(id), 4)):])
	}
	k.refused = append(k.refused, s)
	k.refused = k.refused[max(0, len(k.refused)-len(k.sources)):]
	k.first = (k.used + 1) % len(k.sources)
	return strings.Join(k.refused, ", then ")
}

// refusals lists the error codes that mean wrong credentials, whatever the HTTP status.
var refusals = map[string]bool{
	"AccessDenied": true, "InvalidAccessKeyId": true, "SignatureDoesNotMatch": true, "ExpiredToken": true, "InvalidToken": true, "TokenRefreshRequired": true,
	"XAdminUserNotFound": true, "InvalidSecurity": true, "NotSignedUp": true, "ExpiredTokenException": true,
}

// refusedKeys makes the next request read the credentials again. It returns a text about the
// sources that were tried.
func (b *Bucket) refusedKeys() string {
	v, err := b.creds.GetWithContext(nil)
	if err != nil {
		v = credentials.Value{}
	}
	tried := b.keys.refuse(v)
	b.creds.Expire()
	return "tried credentials: " + cmp.Or(tried, "none")
}

package remote

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"time"

	"cachebro/store/leaf/text"

	"filippo.io/age"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// The errors of a bucket.
var (
	// ErrMissing means that the object does not exist.
	ErrMissing = errors.New("the bucket does not have it")
	// errChanged means that another writer has changed the object since it was read.
	errChanged = errors.New("another machine has changed it meanwhile")
	// ErrClock means that the bucket rejects requests signed with this machine's time.
	ErrClock = errors.New("the bucket refuses this machine's clock")
	// ErrRefused means that the credentials are wrong or expired, or do not allow the request.
	ErrRefused = errors.New("the bucket refuses")
	// ErrForged means that an object does not match its name or its chain of hashes.
	ErrForged = errors.New("the bucket does not contain what was sent")
	// errNoETag means that the server returned no ETag, so conditional writes are impossible.
	errNoETag = errors.New("the server returns no ETag")
)

const (
	// patience is the timeout of a small request. A large one gets more time: its size divided by
	// slowest bytes per second.
	patience = 30 * time.Second
	slowest  = 16 << 10
)

// Bucket gives access to the part of a bucket that belongs to a project. Nothing is sent before the
// first call.
type Bucket struct {
	place Place
	core  minio.Core
	keys  *keySource
	creds *credentials.Credentials // made from keys
	ids   []age.Identity           // decrypt encrypted data

	pageWithin time.Duration // how long a page of a listing may take
}

// Dial prepares a Bucket. Credentials are looked up at the first request, and again after the
// server refused them.
func Dial(p Place) (*Bucket, error) {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: patience, IdleConnTimeout: 30 * time.Second, MaxIdleConnsPerHost: 2,
		DisableCompression: true, MaxResponseHeaderBytes: 64 << 10,
	}
	if p.CA != "" {
		pem, err := os.ReadFile(p.CA)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate", p.CA)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool}
	}
	endpoint, secure := "s3.amazonaws.com", true
	if p.Endpoint != "" {
		u, err := url.Parse(p.Endpoint)
		if err != nil {
			return nil, err
		}
		endpoint, secure = u.Host, u.Scheme == "https"
	}
	look := minio.BucketLookupAuto
	if p.PathStyle {
		look = minio.BucketLookupPath
	}
	own := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	keys := &keySource{sources: []namedSource{
		{"the environment", &credentials.EnvAWS{}}, {"the profile", &credentials.FileAWSCredentials{}}, {"the machine's role", &credentials.IAM{Client: own}},
	}}
	creds := credentials.New(keys)
	core, err := minio.NewCore(endpoint, &minio.Options{
		Creds:  creds,
		Secure: secure, Transport: transport, Region: p.Region, BucketLookup: look, MaxRetries: 1, // callers retry with longer pauses
	})
	if err != nil {
		return nil, err
	}
	return &Bucket{place: p, core: *core, keys: keys, creds: creds, pageWithin: 2 * patience}, nil
}

// stamp is the server's metadata of an object.
type stamp struct {
	etag string
	age  time.Duration // according to the server's clock; negative: unknown
	now  time.Time     // server time of the answer; zero: unknown
}

// stampOf reads a stamp from the answer to a GET or a HEAD.
func stampOf(etag string, h http.Header) stamp {
	now, err := http.ParseTime(h.Get("Date"))
	changed, cerr := http.ParseTime(h.Get("Last-Modified"))
	if err != nil || cerr != nil {
		return stamp{etag: etag, age: -1, now: now}
	}
	return stamp{etag, max(0, now.Sub(changed)), now}
}

// get reads an object of at most limit bytes.
func (b *Bucket) get(ctx context.Context, key string, limit int64) (body []byte, st stamp, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience+time.Duration(limit/slowest)*time.Second)
	defer cancel()
	r, info, answer, err := b.core.GetObject(ctx, b.place.Bucket, path.Join(b.place.Prefix, key), minio.GetObjectOptions{})
	if err != nil {
		return nil, st, b.failed("read", key, err)
	}
	defer r.Close()
	body, err = io.ReadAll(io.LimitReader(r, limit+1))
	switch {
	case err != nil:
		return nil, st, b.failed("read", key, err)
	case int64(len(body)) > limit:
		return nil, st, fmt.Errorf("%w: %s has more than %d bytes", ErrForged, key, limit)
	case info.Size >= 0 && int64(len(body)) != info.Size:
		return nil, st, b.failed("read", key, io.ErrUnexpectedEOF)
	}
	return body, stampOf(info.ETag, answer), nil
}

// getHashed reads an object that is named by its hash and has exactly size bytes.
func (b *Bucket) getHashed(ctx context.Context, key, hash string, size int64) ([]byte, error) {
	body, _, err := b.get(ctx, key, size)
	if err != nil {
		return nil, err
	}
	if int64(len(body)) != size || text.Hash(body) != hash {
		return nil, fmt.Errorf("%w: %s has another hash", ErrForged, key)
	}
	return body, nil
}

// has reports whether an object exists and has this size.
func (b *Bucket) has(ctx context.Context, key string, size int) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	info, err := b.core.StatObject(ctx, b.place.Bucket, path.Join(b.place.Prefix, key), minio.StatObjectOptions{})
	err = b.failed("look for", key, err)
	if errors.Is(err, ErrMissing) {
		return false, nil
	}
	return info.Size == int64(size), err
}

// The conditions of put. Any other value is the ETag that the object must have. "" is rejected,
// because a changing object must not be overwritten without its ETag.
const (
	always = "always"
	absent = "*"
)

func (b *Bucket) put(ctx context.Context, key string, body []byte, when string) (etag string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience+time.Duration(int64(len(body))/slowest)*time.Second)
	defer cancel()
	o := minio.PutObjectOptions{ContentType: "application/octet-stream", DisableContentSha256: true}
	switch when {
	case always:
	case "":
		return "", fmt.Errorf("write %s: %w", key, errNoETag)
	case absent:
		o.SetMatchETagExcept("*")
	default:
		o.SetMatchETag(when)
	}
	info, err := b.core.PutObject(ctx, b.place.Bucket, path.Join(b.place.Prefix, key), bytes.NewReader(body), int64(len(body)), "", text.Hash(body), o)
	if err != nil {
		return "", b.failed("write", key, err)
	}
	return info.ETag, nil
}

// remove deletes an object. A missing object is not an error.
func (b *Bucket) remove(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := b.core.RemoveObject(ctx, b.place.Bucket, path.Join(b.place.Prefix, key), minio.RemoveObjectOptions{})
	err = b.failed("delete", key, err)
	if errors.Is(err, ErrMissing) {
		return nil
	}
	return err
}

// failed converts an error of a request into one of this package.
func (b *Bucket) failed(what, key string, err error) error {
	if err == nil {
		return nil
	}
	r := minio.ToErrorResponse(err)
	switch {
	case r.Code == "NoSuchKey", r.Code == "NotFound" && r.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%w: %s", ErrMissing, key)
	case r.StatusCode == http.StatusPreconditionFailed, r.StatusCode == http.StatusConflict:
		return fmt.Errorf("%s %s: %w", what, key, errChanged)
	case r.Code == "NoSuchBucket":
		return fmt.Errorf("there is no bucket %s", b.place.Bucket)
	case r.Code == "RequestTimeTooSkewed":
		return fmt.Errorf("%w, which is %s", ErrClock, time.Now().UTC().Format("2006-01-02 15:04 MST"))
	case r.StatusCode == http.StatusUnauthorized, r.StatusCode == http.StatusForbidden, refusals[r.Code]:
		return fmt.Errorf("%w: %s %s: %d %.60q %.200q; %s", ErrRefused, what, key, r.StatusCode, r.Code, r.Message, b.refusedKeys())
	case r.StatusCode != 0:
		return fmt.Errorf("%s %s: %d %.60q %.200q", what, key, r.StatusCode, r.Code, r.Message)
	}
	return fmt.Errorf("%s %s: %w", what, key, err)
}

// Hint returns advice for an error of a bucket, or "" if there is none.
func Hint(err error) string {
	switch {
	case errors.Is(err, ErrClock):
		return "set the clock of this machine; the unsent versions are then sent"
	case errors.Is(err, ErrRefused):
		return "credentials come from the environment in which the project was mounted, from ~/.aws/credentials (also credential_process) or from the machine's role; they are read again with each try"
	case errors.Is(err, ErrLost):
		return "cachebro remote add sends all of it again"
	}
	return ""
}

package remote

import (
	"cmp"
	"fmt"
	"net/url"
	"path"
	"strings"
)

// Place is the destination of a project's history: s3://BUCKET/PREFIX, with a query for settings
// that are not in the environment.
type Place struct {
	Bucket, Prefix string
	Endpoint       string // scheme and host; "": Amazon
	Region         string
	PathStyle      bool   // put the bucket's name in the path and not in the host name
	CA             string // PEM file of trusted certificate authorities
}

// ParsePlace reads s3://BUCKET/PREFIX?endpoint=…&region=…&path-style=1&ca=FILE.
func ParsePlace(s string, getenv func(string) string) (p Place, err error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "s3" || u.Host == "" || u.Fragment != "" {
		return p, fmt.Errorf("%q is not s3://BUCKET/PREFIX", s)
	}
	if u.User != nil {
		return p, fmt.Errorf("credentials do not belong in the address; they come from the environment or ~/.aws/credentials")
	}
	p.Bucket, p.Prefix = u.Host, strings.Trim(path.Clean("/"+u.Path), "/")
	for name, vals := range u.Query() {
		switch v := vals[0]; name {
		case "endpoint":
			p.Endpoint = v
		case "region":
			p.Region = v
		case "path-style":
			p.PathStyle = v != "" && v != "0" && v != "false"
		case "ca":
			p.CA = v
		default:
			return p, fmt.Errorf("unknown parameter %q in the address; known are endpoint, region, path-style and ca", name)
		}
	}
	p.Endpoint = strings.TrimSuffix(cmp.Or(p.Endpoint, getenv("AWS_ENDPOINT_URL_S3"), getenv("AWS_ENDPOINT_URL")), "/")
	p.Region = cmp.Or(p.Region, getenv("AWS_REGION"), getenv("AWS_DEFAULT_REGION"))
	p.CA = cmp.Or(p.CA, getenv("AWS_CA_BUNDLE"))
	if p.Endpoint != "" {
		e, err := url.Parse(p.Endpoint)
		isHTTP := err == nil && (e.Scheme == "http" || e.Scheme == "https")
		if !isHTTP || e.Host == "" || e.Path != "" || e.User != nil {
			return p, fmt.Errorf("the endpoint %q is not https://HOST", p.Endpoint)
		}
	}
	if p.CA != "" && !path.IsAbs(p.CA) {
		return p, fmt.Errorf("ca=%s must be an absolute path", p.CA)
	}
	return p, nil
}

// String returns the complete address.
func (p Place) String() string {
	u := url.URL{Scheme: "s3", Host: p.Bucket, Path: "/" + p.Prefix}
	q := url.Values{}
	for name, v := range map[string]string{"endpoint": p.Endpoint, "region": p.Region, "ca": p.CA} {
		if v != "" {
			q.Set(name, v)
		}
	}
	if p.PathStyle {
		q.Set("path-style", "1")
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// Short returns the address for display.
func (p Place) Short() string {
	s := "s3://" + path.Join(p.Bucket, p.Prefix)
	if p.Endpoint != "" {
		s += " at " + p.Endpoint
	}
	return s
}

// same reports whether two places are the same.
func (p Place) same(o Place) bool {
	return p.Bucket == o.Bucket && p.Prefix == o.Prefix && p.Endpoint == o.Endpoint
}

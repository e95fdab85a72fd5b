package remote

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"filippo.io/age"
)

// Encryption is age's. Who sends knows recipients only, so a stolen machine opens
// nothing that was sent; who reads has an identity. age vouches for nobody: whoever knows
// a recipient can write what opens with its identity, as whoever writes to a bucket
// without encryption can.

// ErrLocked: what was sent is encrypted, and no key here opens it.
var ErrLocked = errors.New("the history is encrypted")

const (
	// ageMagic begins all that age writes.
	ageMagic = "age-encryption.org/"
	// maxKeys is how large a file of identities may be.
	maxKeys = 1 << 20
)

// CheckRecipients is nil if each is an age recipient (age1…).
func CheckRecipients(all []string) error {
	_, err := recipients(all)
	return err
}

func recipients(all []string) (out []age.Recipient, err error) {
	for _, s := range all {
		r, err := age.ParseRecipients(strings.NewReader(s))
		if err != nil || len(r) != 1 || strings.TrimSpace(s) != s {
			return nil, fmt.Errorf("%.10q… is no age recipient (age1…)", s) // not all of it: it may be an identity
		}
		out = append(out, r[0])
	}
	return out, nil
}

// encrypted is b for recipients; without any it is b.
func encrypted(b []byte, to []string) ([]byte, error) {
	if len(to) == 0 {
		return b, nil
	}
	rs, err := recipients(to)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w, err := age.Encrypt(&out, rs...)
	if err == nil {
		_, err = w.Write(b)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	return out.Bytes(), nil
}

// Unlock has what is encrypted opened with the identities in a file, as age-keygen makes
// them.
func (b *Bucket) Unlock(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	b.ids, err = age.ParseIdentities(io.LimitReader(f, maxKeys))
	if err != nil {
		return fmt.Errorf("%s holds no age identities", file) // what is in it is nobody's business
	}
	return nil
}

// open decrypts what is encrypted.
func (b *Bucket) open(body []byte) ([]byte, error) {
	if !bytes.HasPrefix(body, []byte(ageMagic)) {
		return body, nil
	}
	if len(b.ids) == 0 {
		return nil, fmt.Errorf("%w: a file with its age identity is needed", ErrLocked)
	}
	r, err := age.Decrypt(bytes.NewReader(body), b.ids...)
	var none *age.NoIdentityMatchError
	if errors.As(err, &none) {
		return nil, fmt.Errorf("%w, and for other keys than those given", ErrLocked)
	}
	var out []byte
	if err == nil {
		out, err = io.ReadAll(r) // is shorter than body
	}
	if err != nil {
		return nil, fmt.Errorf("%w: it cannot be decrypted: %w", ErrForged, err)
	}
	return out, nil
}

// hidden is what of a machine only its readers learn.
type hidden struct {
	Name       string   `json:"name"`
	Root       string   `json:"root"`
	Recipients []string `json:"recipients"`
}

// hide encrypts what is hidden.
func (m *Machine) hide(to []string) error {
	m.Sealed, m.recipients = "", strings.Join(to, " ")
	if len(to) == 0 {
		return nil
	}
	body, err := json.Marshal(hidden{m.Name, m.Root, to})
	if err == nil {
		body, err = encrypted(body, to)
	}
	m.Sealed = base64.StdEncoding.EncodeToString(body)
	return err
}

// public is the machine as the bucket shows it.
func (m Machine) public() Machine {
	m.recipients = ""
	if m.Sealed != "" {
		m.Name, m.Root = "", ""
	}
	return m
}

// reveal opens what is hidden, if a key does: who has none still follows the numbers.
func (b *Bucket) reveal(m *Machine) error {
	if m.Sealed == "" {
		return nil
	}
	m.Name, m.Root = "", ""
	body, err := base64.StdEncoding.DecodeString(m.Sealed)
	if err != nil || !bytes.HasPrefix(body, []byte(ageMagic)) {
		return fmt.Errorf("%w: the names of machine %s cannot be read", ErrForged, m.ID)
	}
	body, err = b.open(body)
	if errors.Is(err, ErrLocked) {
		return nil
	}
	var h hidden
	if err == nil {
		err = json.Unmarshal(body, &h)
	}
	if err == nil {
		err = CheckRecipients(h.Recipients)
	}
	if err != nil {
		return fmt.Errorf("%w: the names of machine %s: %w", ErrForged, m.ID, err)
	}
	m.Name, m.Root, m.recipients = h.Name, h.Root, strings.Join(h.Recipients, " ")
	return nil
}

// Called is the name of the machine's host, or what stands for it where that is hidden.
func (m Machine) Called() string { return cmp.Or(m.Name, "machine "+m.ID[:min(8, len(m.ID))]) }

// Recipients are those that a machine encrypts for; nil: it does not, or they are hidden.
func (m Machine) Recipients() []string { return strings.Fields(m.recipients) }

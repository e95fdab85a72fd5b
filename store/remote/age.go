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

// Encryption uses age. A sender knows only recipients, so a stolen machine cannot decrypt what it
// sent. A reader has an identity. age does not authenticate the sender: anyone who knows a
// recipient can write data that decrypts with its identity. Without encryption, anyone who can
// write to the bucket can do the same.

// ErrLocked means that no given key decrypts the data.
var ErrLocked = errors.New("the history is encrypted")

const (
	// ageMagic begins everything that age writes.
	ageMagic = "age-encryption.org/"
	// maxKeys is the size limit for a file of identities.
	maxKeys = 1 << 20
)

// CheckRecipients returns nil if each string is an age recipient (age1…).
func CheckRecipients(all []string) error {
	_, err := recipients(all)
	return err
}

func recipients(all []string) (out []age.Recipient, err error) {
	for _, s := range all {
		r, err := age.ParseRecipients(strings.NewReader(s))
		if err != nil || len(r) != 1 || strings.TrimSpace(s) != s {
			return nil, fmt.Errorf("%.10q… is not an age recipient (age1…)", s) // only the beginning, because it may be an identity
		}
		out = append(out, r[0])
	}
	return out, nil
}

// encrypted returns b encrypted for the recipients, or b itself if there are none.
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

// Unlock makes the bucket decrypt with the identities in a file, in the format of age-keygen.
func (b *Bucket) Unlock(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	b.ids, err = age.ParseIdentities(io.LimitReader(f, maxKeys))
	if err != nil {
		return fmt.Errorf("%s holds no age identities", file) // do not show the file's content
	}
	return nil
}

// open returns body, decrypted if necessary.
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
		return nil, fmt.Errorf("%w, and none of the given keys decrypts it", ErrLocked)
	}
	var out []byte
	if err == nil {
		out, err = io.ReadAll(r) // the result is shorter than body
	}
	if err != nil {
		return nil, fmt.Errorf("%w: it cannot be decrypted: %w", ErrForged, err)
	}
	return out, nil
}

// hidden is the part of a machine that only readers with a key can see.
type hidden struct {
	Name       string   `json:"name"`
	Root       string   `json:"root"`
	Recipients []string `json:"recipients"`
}

// sealNames encrypts the hidden part of a machine.
func (m *Machine) sealNames(to []string) error {
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

// redacted returns the machine as the bucket shows it.
func (m Machine) redacted() Machine {
	m.recipients = ""
	if m.Sealed != "" {
		m.Name, m.Root = "", ""
	}
	return m
}

// reveal decrypts the hidden part if a key fits. Otherwise Name and Root stay empty.
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
	m.Name, m.Root = h.Name, h.Root
	m.recipients = strings.Join(h.Recipients, " ")
	return nil
}

// Called returns the name of the machine's host, or a substitute if it is hidden.
func (m Machine) Called() string { return cmp.Or(m.Name, "machine "+m.ID[:min(8, len(m.ID))]) }

// Recipients returns the recipients for whom a machine encrypts. It returns nil if the machine does
// not encrypt or the recipients are hidden.
func (m Machine) Recipients() []string { return strings.Fields(m.recipients) }

package gitdir

import (
	"crypto/sha1" // for git's object names
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
)

// BlobName returns git's name of a blob with this content and size. The name is a SHA-1 or a
// SHA-256, depending on its length in hexadecimal digits.
func BlobName(content io.Reader, size int64, length int) (string, error) {
	h := sha1.New()
	if length == hex.EncodedLen(sha256.Size) {
		h = sha256.New()
	}
	fmt.Fprintf(h, "blob %d\x00", size)
	_, err := io.Copy(h, content)
	return hex.EncodeToString(h.Sum(nil)), err
}

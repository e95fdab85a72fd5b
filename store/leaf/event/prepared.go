package event

import "github.com/fxamacker/cbor/v2"

// Prepared is an extended attribute of directories in a mount. A thread sets it to announce files
// that it will create in the directory by mknod(2). Each file then appears with its content, mode
// and time in one step. The attribute is never stored. A mount that supports it has it on the root,
// with an empty value.
const Prepared = "user.cachebro.prepared"

// MaxPrepared is the longest value of an attribute that Linux allows.
const MaxPrepared = 64 << 10

// PreparedFile is a file to be created.
type PreparedFile struct {
	_       struct{} `cbor:",toarray"`
	Name    []byte   // name within the directory
	Mode    uint32   // permission bits
	Mtime   int64    // in nanoseconds
	Content []byte
}

// EncodePrepared returns the attribute's value.
func EncodePrepared(files []PreparedFile) ([]byte, error) { return cbor.Marshal(files) }

// DecodePrepared decodes the attribute's value. The contents are copies.
func DecodePrepared(b []byte) (files []PreparedFile, err error) {
	return files, cbor.Unmarshal(b, &files)
}

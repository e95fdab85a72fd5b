package event

import "github.com/fxamacker/cbor/v2"

// Prepared is the extended attribute of a directory of a mount by which a thread tells of files that
// it is about to make there by mknod(2): each of them appears with its content, mode and time.
// It is never stored. The root has it, with no value, where that is understood.
const Prepared = "user.cachebro.prepared"

// MaxPrepared is how long the attribute's value may be: as long as Linux allows.
const MaxPrepared = 64 << 10

// PreparedFile is a file that is about to be made.
type PreparedFile struct {
	_       struct{} `cbor:",toarray"`
	Name    []byte   // in the directory
	Mode    uint32   // permission bits
	Mtime   int64    // in nanoseconds
	Content []byte
}

// EncodePrepared is the attribute's value.
func EncodePrepared(files []PreparedFile) ([]byte, error) { return cbor.Marshal(files) }

// DecodePrepared reads it. The contents are copies.
func DecodePrepared(b []byte) (files []PreparedFile, err error) {
	return files, cbor.Unmarshal(b, &files)
}

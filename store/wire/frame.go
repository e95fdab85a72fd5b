package wire

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"cachebro/store/leaf/limits"
)

// Limits of one frame, in bytes. The header of a plan for 100,000 files takes 30 MB. A body is a
// file or a diff of a whole tree.
const (
	maxHeader = 64 << 20
	maxBody   = 8 * limits.Content

	prefixLen = 8
	// believed is the number of bytes that are allocated before any byte arrives. If the length
	// field is larger, memory grows only as bytes arrive.
	believed = 1 << 20
	maxFDs   = 4
)

type requestHeader struct {
	ID     uint64 `json:"id"`
	Method string `json:"method"`
	Params any    `json:"params,omitempty"`
}

type requestIn struct {
	ID     uint64          `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// answerHeader is the header of an answer. The client sets Result to a pointer before it decodes
// the header, so that a long result is scanned only once.
type answerHeader struct {
	ID     uint64 `json:"id"`
	Result any    `json:"result,omitempty"`
	Error  *Error `json:"error,omitempty"`
}

// stream is one end of a connection. It holds the descriptors received so far. One goroutine reads
// and one writes.
type stream struct {
	c   *net.UnixConn
	br  *bufio.Reader
	oob []byte
	fds []*os.File
}

func newStream(c *net.UnixConn) *stream {
	s := &stream{c: c, oob: make([]byte, unix.CmsgSpace(maxFDs*4))}
	s.br = bufio.NewReaderSize(s, 16<<10)
	return s
}

// Read reads for the buffered reader. Unlike a plain read, it also receives descriptors.
func (s *stream) Read(p []byte) (int, error) {
	n, oobn, _, _, err := s.c.ReadMsgUnix(p, s.oob)
	if oobn > 0 {
		s.collect(s.oob[:oobn])
	}
	if err == nil && n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return max(n, 0), err
}

func (s *stream) collect(oob []byte) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return
	}
	for i := range msgs {
		fds, err := unix.ParseUnixRights(&msgs[i])
		if err != nil {
			continue
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			if len(s.fds) >= maxFDs {
				_ = unix.Close(fd)
				continue
			}
			s.fds = append(s.fds, os.NewFile(uintptr(fd), "received"))
		}
	}
}

// takeFiles returns the descriptors received so far; the caller owns them.
func (s *stream) takeFiles() []*os.File {
	f := s.fds
	s.fds = nil
	return f
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// writeFrame sends one frame, with file attached if it is not nil.
func (s *stream) writeFrame(header any, body []byte, file *os.File) error {
	h, err := json.Marshal(header)
	if err != nil {
		return fmt.Errorf("encode header: %w", err)
	}
	if len(h) > maxHeader || len(body) > maxBody {
		return Errorf(ErrTooLarge, "ask for less, with a limit or a path", "message of %d bytes is too large", len(h)+len(body))
	}
	head := make([]byte, prefixLen, prefixLen+len(h)+min(len(body), 64<<10))
	binary.LittleEndian.PutUint32(head, uint32(len(h)))
	binary.LittleEndian.PutUint32(head[4:], uint32(len(body)))
	head = append(head, h...)
	if len(body) <= cap(head)-len(head) {
		head = append(head, body...) // one write, so that the other side wakes up only once
		body = nil
	}
	if file != nil {
		n, _, err := s.c.WriteMsgUnix(head, unix.UnixRights(int(file.Fd())), nil)
		if err != nil {
			return err
		}
		head = head[n:]
	}
	if len(head) > 0 {
		if _, err := s.c.Write(head); err != nil {
			return err
		}
	}
	if len(body) > 0 {
		_, err = s.c.Write(body)
	}
	return err
}

// readFrame returns the next frame, or io.EOF if the connection was closed between frames.
func (s *stream) readFrame() (header, body []byte, err error) {
	var p [prefixLen]byte
	if _, err := io.ReadFull(s.br, p[:]); err != nil {
		return nil, nil, err
	}
	hl, bl := binary.LittleEndian.Uint32(p[:]), binary.LittleEndian.Uint32(p[4:])
	if hl > maxHeader || bl > maxBody {
		return nil, nil, Errorf(ErrTooLarge, "", "frame of %d + %d bytes exceeds the limits", hl, bl)
	}
	header, err = s.readN(int(hl))
	if err != nil {
		return nil, nil, err
	}
	body, err = s.readN(int(bl))
	if err != nil {
		return nil, nil, err
	}
	return header, body, nil
}

func (s *stream) readN(n int) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	b := make([]byte, 0, min(n, believed))
	for len(b) < n {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		part := b[len(b):min(cap(b), n)]
		if _, err := io.ReadFull(s.br, part); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		b = b[:len(b)+len(part)]
	}
	return b, nil
}

func (s *stream) close() {
	s.c.Close()
	closeAll(s.takeFiles())
}

// past is a deadline in the past. Setting it ends a blocked read or write.
var past = time.Unix(1, 0)

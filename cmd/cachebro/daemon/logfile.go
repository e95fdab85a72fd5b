package daemon

import (
	"fmt"
	"os"
	"sync"
)

// maxLog is the size in bytes at which the log is renamed to daemon.log.1.
const maxLog = 5 << 20

// logFile is an io.Writer that rotates. It ignores write errors, because a full disk must not make
// the logged operations fail.
type logFile struct {
	path string

	// mu guards f and size. It is held during the write, so that lines do not mix.
	mu   sync.Mutex
	f    *os.File
	size int64
}

func openLog(path string) (*logFile, error) {
	l := &logFile{path: path}
	return l, l.open()
}

func (l *logFile) open() error {
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	fi, err := f.Stat()
	if err != nil {
		f.Close()
		return fmt.Errorf("open log: %w", err)
	}
	l.f, l.size = f, fi.Size()
	return nil
}

// Write appends p. It returns no error.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return len(p), nil
	}
	if l.size+int64(len(p)) > maxLog {
		l.f.Close()
		_ = os.Rename(l.path, l.path+".1")
		if l.open() != nil {
			l.f = nil
			return len(p), nil
		}
	}
	n, _ := l.f.Write(p)
	l.size += int64(n)
	return len(p), nil
}

// Close ends the log; later writes are dropped.
func (l *logFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return nil
	}
	err := l.f.Close()
	l.f = nil
	return err
}

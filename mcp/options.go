package mcp

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net"

	"cachebro/store/tokens"
	"cachebro/store/wire"
)

// Caller asks the daemon. *wire.Client is one. It is safe for concurrent use and reconnects by
// itself.
type Caller interface {
	// Call sends params and body under method, decodes the answer into result and returns the
	// answer's body. params and result may be nil. A *wire.Error comes from the daemon; any other
	// error means that the daemon did not answer.
	Call(ctx context.Context, method string, params any, body []byte, result any) ([]byte, error)
}

// Options configures Serve. In, Out, Dial and Root are required.
type Options struct {
	// In and Out carry newline-delimited JSON-RPC. They are unused if Listener is set.
	In  io.Reader
	Out io.Writer

	// Dial finds or starts the daemon, when it is first needed and again after a failure. A client
	// can list tools without a daemon.
	Dial func(context.Context) (Caller, error)

	// Stopped returns an error if a signal stopped the process that serves the mount. A call would
	// then wait for the mount and could not be cancelled. It may be nil.
	Stopped func() error

	// Open returns the options of the project that contains an absolute path, for calls about other
	// projects than Root. It returns false if no known project contains the path. If nil, all calls
	// are about Root.
	Open func(path string) (Options, bool)

	// Others returns lines that list what the session or prompt of an undo also changed in other
	// projects. It may be nil.
	Others func(ctx context.Context, session, prompt string) []string

	// Root is the project's root, absolute and clean, as the daemon knows it.
	Root string
	// Mountpoint is where the overlay shows the project if not at Root.
	Mountpoint string
	// Aliases are other absolute paths of Root. One example is a path through a symlink, if the
	// server was started with it.
	Aliases []string

	// Profile is read, safety, default or all; "" is default.
	Profile string
	// Reader is "" or "connection". "connection" means that this connection is one context window.
	// Nobody then reports which part of a result the client passed on to its model, so only texts
	// of at most Small bytes count as shown. If Small is 0, the limit is 8 KiB, which no known
	// client cuts.
	Reader string
	Small  int
	// Session is a client's session id from the environment. It labels edits and never decides what
	// a reader has seen.
	Session string
	Version string
	// Logger gets the errors behind an answer. nil discards them.
	Logger *slog.Logger
	// Tokens counts the tokens of a text. nil means tokens.Estimate.
	Tokens func([]byte) int

	// Listener serves HTTP on this loopback listener instead of In and Out. Token is the bearer
	// token that every request needs.
	Listener net.Listener
	Token    string
}

func (o *Options) check() error {
	switch o.Profile {
	case "", ProfileRead, ProfileSafety, ProfileDefault, ProfileAll:
	default:
		return wire.Errorf(wire.ErrBadRequest, "cachebro serve --tools=read, safety, default or all", "unknown tool profile %q", o.Profile)
	}
	switch o.Reader {
	case "", ReaderConnection:
	default:
		return wire.Errorf(wire.ErrBadRequest, "cachebro serve --reader=connection, or leave it out", "unknown reader %q", o.Reader)
	}
	if o.Root == "" || o.Root[0] != '/' {
		return wire.Errorf(wire.ErrBadRequest, "", "root %q is not an absolute path", o.Root)
	}
	if o.Dial == nil {
		return wire.Errorf(wire.ErrBadRequest, "", "no way to find the store daemon was given")
	}
	if o.Listener == nil && (o.In == nil || o.Out == nil) {
		return wire.Errorf(wire.ErrBadRequest, "", "no input and output to serve on")
	}
	return nil
}

// fill sets the defaults.
func (o *Options) fill() {
	if o.Small <= 0 {
		o.Small = 8 << 10
	}
	o.Profile = cmp.Or(o.Profile, ProfileDefault)
	if o.Others == nil {
		o.Others = func(context.Context, string, string) []string { return nil }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Tokens == nil {
		o.Tokens = tokens.Estimate
	}
}

// The profiles and readers that Options accepts.
const (
	// ProfileRead offers only read_file, for clients without hooks that have their own tools for
	// everything else. It costs two fifths of ProfileDefault's tokens in each context.
	ProfileRead      = "read"
	ProfileSafety    = "safety"
	ProfileDefault   = "default"
	ProfileAll       = "all"
	ReaderConnection = "connection"
)

// instructions is shown to the model once per context. It says only what the tools' names and
// descriptions do not.
func instructions(profile string) string {
	switch profile {
	case ProfileAll:
		return "Every version of every file is kept, whichever program wrote or deleted it; undo and revert_file can themselves be undone. Paths are relative to the project, or absolute inside it."
	case ProfileSafety:
		return "Every version of every file is kept, whichever program wrote or deleted it."
	}
	return "" // the tools' descriptions say everything
}

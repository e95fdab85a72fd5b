// Package displace replaces or removes a file without losing data of processes that write to it.
// File replaces a file's content in this way and preserves its mode, owner and extended attributes.
//
// After a rename over a file, or its removal, the processes that have it open for writing write to
// a file without a name, and their data is lost. So no process may have the file open for writing,
// and none may open it until it was replaced. A read lease reports such processes and blocks new
// ones. Without leases (they may be missing, or only for the owner and root) a writer is noticed
// only afterwards.
//
// A process may look up the name just before the rename, and open the file just after it. On the
// overlay such an open has to look up the name again (see fusefs), so a rename is enough. On other
// file systems the old file exists under the temporary name for a moment. If it was written
// meanwhile, it gets its name back.
package displace

import "errors"

// ErrOpen means that the file is open for writing. Writers returns the processes.
var ErrOpen = errors.New("is open for writing")

// ErrChanged means that the file has changed since it was held.
var ErrChanged = errors.New("was changed meanwhile")

// ErrGivenBack means that a process wrote to the displaced file, which then got its name back.
var ErrGivenBack = errors.New("was written to meanwhile")

// ErrAppended means that a process wrote to the displaced file. The data was appended to the file
// that has its name now.
var ErrAppended = errors.New("was restored, and the data written to it meanwhile was appended")

// Package displace takes a file's place without cutting off who writes to it. File gives a
// file a new content so, and keeps its mode, owner and extended attributes.
//
// A rename over a file, or its removal, leaves those who have it open for writing with a
// file that has no name, and what they write from then on is lost. So nobody may have it
// open for writing, and nobody may open it for writing until its place is taken. A read
// lease reports the first and prevents the second. Where the system has no leases, or
// grants them to the owner and root only, a writer is noticed only afterwards.
//
// Somebody may have looked up the name just before, and open the file just after. On the
// overlay such an open is told to look the name up again (see fusefs), so a rename is
// enough. Elsewhere the old file is kept under the temporary name for a moment; if
// somebody wrote to it, it gets its name back.
package displace

import "errors"

// ErrOpen: the file is open for writing. Who has it open says Writers.
var ErrOpen = errors.New("is open for writing")

// ErrChanged: the file is not as it was when it was held.
var ErrChanged = errors.New("was changed meanwhile")

// ErrGivenBack: somebody wrote to the file while it was displaced, and it has its
// name again.
var ErrGivenBack = errors.New("was written to meanwhile")

// ErrAppended: the file is displaced, and what somebody wrote to it meanwhile is at
// the end of the one that has its name now.
var ErrAppended = errors.New("was taken back, and what was written to it meanwhile is at its end")

// Package apply carries out a plan that the store daemon made: it writes, moves
// and deletes files below one directory, the mountpoint where there is one, so
// that the overlay, editors and the kernel's caches see it like any other
// change. It is the way back from "version" to the project.
//
// Every step first checks that the file still is what the plan expects (content hash
// and kind), because anybody may have written between plan and step. A step that does
// not fit is reported, and the file is left alone. All names are reached through an
// os.Root, so a symlink that leads out of the project is never followed, wherever it
// stands in the path.
//
// A file is written beside its place and renamed over it, with its exact mode. A small
// file that does not exist is written under its own name, which is half the work. A
// file with several names (hard links) is written in place, because a rename would cut
// it off from its other names. A file that somebody has open for writing is left alone,
// because a rename would take it away from the writer; see package displace.
//
// Steps for different files run at the same time. One process applies a plan. When it is
// killed, another one resumes: it recognises half-written files by their name or their
// beginning and writes them anew, and steps that are done count as done.
package apply

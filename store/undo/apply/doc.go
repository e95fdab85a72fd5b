// Package apply carries out a plan that the store daemon made: it writes, moves
// and deletes files below one directory, the mountpoint where there is one, so
// that the overlay, editors and the kernel's caches see it like any other
// change. It is the way back from "version" to the project.
//
// Every step first checks that the file still is what the plan expects (content
// hash and kind), because between plan and step anybody may have written; a
// step that does not fit is reported and leaves the file alone. All names are
// reached through an os.Root: a symlink that leads out of the project is never
// followed, wherever it stands in the path.
//
// A file is written beside its place and renamed over it, with its exact mode.
// A small one that is not there is written under its own name, which is half the
// work for everybody; a file with several names (hard links) is written in
// place, for a rename would cut it off from the others. A file that somebody has
// open for writing is left alone, for a rename would cut him off from it; see
// package displace.
//
// Steps for different files are under way at once; a plan belongs to one
// process. When that is killed, another one resumes the plan: what it had begun
// to write is recognised by its name, or as a beginning, and begun anew, and what is there counts.
package apply

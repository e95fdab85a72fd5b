// Package apply carries out a plan that the store daemon made. It writes, moves and deletes
// files in one directory, which is the mountpoint if the project is mounted, so that the
// overlay, editors and the kernel's caches see the changes like any others. It restores
// versions to the project.
//
// Every step first checks that the file is still as the plan expects (content hash and kind),
// because other processes may have written to it since the plan was made. If it is not, the
// step is reported and the file is not changed. All names are accessed through an os.Root, so
// a symlink that leads out of the project is never followed, at any position in the path.
//
// A file is written under a temporary name in the same directory, with its exact mode, and
// renamed to its place. A small file that does not exist is written under its own name, which
// is half the work. A file with several names (hard links) is written in place, because a
// rename would separate it from its other names. A file that another process has open for
// writing is not changed, because after a rename the process would write to a file without a
// name; see package displace.
//
// Steps for different files run at the same time. One process applies a plan. If it is
// killed, another one resumes the plan. It recognises half-written files by their name or
// their beginning and writes them again, and it skips completed steps.
package apply

// Package apply carries out a plan that the store daemon made. It writes, moves and deletes files
// in one directory. If the project is mounted, this is the mountpoint, so the overlay, editors and
// the kernel's caches see the changes like any others.
//
// Every step first checks that the file is still as the plan expects (content hash and kind),
// because other processes may have written to it since. If not, the step is reported and the file
// is left alone. All names are accessed through an os.Root, so a symlink that leads out of the
// project is never followed.
//
// A file is written under a temporary name in the same directory, with its exact mode, and renamed
// to its place. There are three exceptions:
//   - A small file that does not exist is written under its own name, which is half the work.
//   - A file with several names (hard links) is written in place, because a rename would separate
//     it from its other names.
//   - A file that another process has open for writing is left alone. After a rename the process
//     would write to a file without a name; see package displace.
//
// Steps for different files run concurrently. One process carries out a plan. If it is killed,
// another process resumes the plan. That process skips completed steps, and writes half-written
// files again, which it recognises by their name or beginning.
package apply

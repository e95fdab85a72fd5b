// Package imports finds what a file names of its own project: the files and
// packages that its import lines mean, and the paths that a document speaks of.
// In observe → version → index → serve it belongs to "index"; the edges of the
// project's graph are made of it.
//
// Finding is in two steps, because the first depends on the file's bytes alone
// and can be kept with them, while the second changes when files come and go:
//
//   - Of gives specs, words like "go:cachebro/store" or "js:./util".
//   - Targets gives the places where the file that a spec means may lie, in the
//     order in which they count. A place that ends with a slash is a directory,
//     one that begins with "**/" is the only file of that name.
//
// Go is read by its own parser, the others by the shape of their import lines.
// A spec that means something outside of the project has no place that exists.
// The package has no state and no locks.
package imports

// Package bundle keeps the graph of a project and composes what a reader should know about one
// node of it. It answers get_context and get_graph.
//
// A node is a file, a directory (its name ends with a slash) or a group that
// cachebro.yml names. Edges are imports and paths that documents name (package
// imports), what was read before something else was written (Pairs), and what
// cachebro.yml says. A bundle is a node's summary, files, symbols, pieces of
// documents, newest versions and neighbours.
//
// # Rows
//
// What a file contributes (Facts) depends only on its path and bytes. The graph follows the
// version log when it is asked: a new version costs that one file's row, and the files that
// had looked for a name that came or went are linked again. Rows are kept under
// "row NUL path" with the hash they were made from, so that a new process reads no file again;
// pairs are kept under "pair NUL path". Anything that does not decode is made anew.
//
// # Validity
//
// A bundle is made in two steps. Plan looks at the graph in memory and lists everything
// that the bundle will consist of: the hashes of the node's files and of the documents,
// the neighbours, the versions. Text turns a plan into the answer and looks at nothing
// else; it finds contents by their hash. So a kept answer is valid as long as the plan
// has the hash that was kept with it: by construction it equals a new one.
//
// # Locks
//
// Graph.turn (a channel) is held over disk by the one goroutine that follows the
// log. Graph.mu guards the maps and Pairs.mu its tables; Graph.mu may be held
// when Pairs.mu is taken, and neither over disk.
package bundle

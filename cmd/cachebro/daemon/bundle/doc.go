// Package bundle maintains the graph of a project and composes what a reader should know about one
// node of the graph. It answers get_context and get_graph.
//
// A node is a file, a directory (its name ends with a slash) or a group that cachebro.yml names.
// Edges come from imports, from paths that documents name, from cachebro.yml, and from files that
// were read before other files were written (Pairs). A bundle is a node's summary, files, symbols,
// sections of documents, newest versions and neighbours.
//
// # Rows
//
// The Facts that a file contributes to the graph depend only on its path and bytes. Each request
// first brings the graph up to date with the version log. For each new version it rebuilds the row
// of the file. If a name appeared or disappeared, the imports and mentions that may refer to it are
// resolved again. Rows are stored under "row NUL path" with the hash of the content, so that a new
// process need not read the files again. Pairs are stored under "pair NUL path". A row that cannot
// be decoded is made again.
//
// # Validity
//
// A bundle is made in two steps. Plan looks at the graph in memory and lists everything that the
// bundle will consist of: the hashes of the node's files and of the documents, the neighbours, the
// versions. Text turns a plan into the answer, and finds contents by their hash. It uses nothing
// else, so equal plans have equal texts. A cached answer is stored with the hash of its plan, and
// is valid as long as a new plan has that hash.
//
// # Locks
//
// Graph.turn (a channel) is held by the one goroutine that follows the log, even while it reads
// from disk. Graph.mu guards the graph's maps, and Pairs.mu guards the tables of Pairs. Pairs.mu
// may be taken while Graph.mu is held, and neither is held while reading from disk.
package bundle

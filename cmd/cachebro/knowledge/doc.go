// Package knowledge has the commands that answer questions about the project: search, context,
// notes, documents and their code, reads, the working set, metrics, and memo.
package knowledge

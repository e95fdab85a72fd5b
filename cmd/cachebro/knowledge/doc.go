// Package knowledge has the commands that find things out: search, context, notes,
// documents and their code, reads, the working set, and memo.
package knowledge

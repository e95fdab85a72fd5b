// Package notes keeps what people and agents want remembered about a project:
// a decision, a warning, what is left to do. In observe → version → index →
// serve it stands beside the version log. A note is derived from nothing, so it stays
// until somebody removes it: a reindex, a collection or the deletion of its file does
// not end it.
//
// Notes lie in the store's settings under the bucket "notes": the key is the
// id, the value a Note as CBOR with integer keys. All of them are held in
// memory, as an immutable list that is published anew with each change; readers
// take no lock, and mu is held over the store so that two writers cannot mix.
package notes

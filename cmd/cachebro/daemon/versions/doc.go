// Package versions finds what a request names: a version, a session or a prompt. It also
// compares two versions.
//
// "last", as clients call a session or a prompt, is the newest one that changed something.
// A session that is merely the newest may be that of a wrapper around the client, or one
// that only read; nobody means those. The beginnings of names are understood too, because
// the log shows those.
package versions

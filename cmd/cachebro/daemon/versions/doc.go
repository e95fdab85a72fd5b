// Package versions finds what a request names: a version, a session or a prompt. It also
// compares two versions.
//
// For clients, the "last" session or prompt is the newest one that changed something. The
// newest session of all may be that of a wrapper around the client, or one that only read, and
// people do not mean those. The beginning of a name is accepted too, because the log shows
// only the beginnings.
package versions

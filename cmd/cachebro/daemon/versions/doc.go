// Package versions resolves the version, session or prompt that a request names. It also compares
// two versions.
//
// The "last" session or prompt is the newest one that changed something. The newest of all may
// belong to a wrapper around the client, or may have only read. The beginning of a name is accepted
// too, because the log shows only beginnings.
package versions

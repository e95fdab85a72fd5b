// Package doctor has two commands: status reports what is watched and kept, doctor
// reports what does not work and how to mend it.
package doctor

// Package doctor has the commands that say how things stand: status for what is
// watched and kept, doctor for what does not work and what mends it.
package doctor

// Package doctor implements two commands. status reports what is watched and stored. doctor reports
// what does not work and how to fix it.
package doctor

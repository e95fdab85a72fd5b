// Package space measures how much a store takes on its file system and how much is free there, and
// divides a cap among the stores of a user.
package space

// Package space knows how much a store takes on its file system, how much is free
// there, and how a cap is shared among the stores of a user.
package space

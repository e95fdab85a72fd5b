// Package space measures a store's size and the free space of its file system, and divides a cap
// among the stores of a user.
package space

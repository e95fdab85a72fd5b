// Package storage has the commands for the store as a whole (du, prune, fsck, purge,
// export, import) and the process that owns one (daemon).
package storage

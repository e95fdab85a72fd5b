// Package keep keeps a store within its limits. It drops superseded contents, oldest
// first, packs the rest, purges what must be forgotten, and reports which paths take
// how much.
//
// A version whose content is dropped stays in the log. The present contents of paths
// are never dropped, except by Purge.
package keep

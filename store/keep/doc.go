// Package keep enforces a store's limits. It drops superseded contents, oldest first, packs the
// remaining ones, purges contents on request, and reports how much space each path takes.
//
// A version whose content is dropped stays in the log. Only Purge drops the present content of a
// project's path.
package keep

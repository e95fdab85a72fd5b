// Package ingest turns the records that capture spooled into versions, in order and with the
// checkpoint of the spool, and lets callers wait for that.
package ingest

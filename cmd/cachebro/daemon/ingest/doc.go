// Package ingest reads the records that mountd spooled and turns them into versions, in order. It
// stores its position in the spool together with the versions. Callers can wait until everything
// spooled is ingested.
package ingest

// Package keep keeps a store within its limits: it drops what nobody will miss,
// oldest and superseded first, packs the rest, takes out what is to be forgotten,
// and tells who takes how much.
//
// A version whose content goes stays in the log. What paths hold now is never
// dropped but by Purge.
package keep

// Package versions finds the version that a request names, and compares two of them.
package versions

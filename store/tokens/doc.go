// Package tokens estimates how many tokens a text costs a model, without a vocabulary. By these
// estimates, package readers chooses between full text, diff and stub, and counts what sessions
// have saved.
//
// The text is divided into pieces like those that o200k_base makes before its byte pair encoding:
// words with one leading character, groups of three digits, punctuation, line ends, blanks. Each
// piece costs the average of pieces of its shape and length in source code. TestFit computes the
// averages, which are in costs.go. Over a code corpus the sum is within ±10 % of the real count.
// For a single short text the error can be larger.
//
// The package has no state and no locks. Estimate does not allocate memory.
package tokens

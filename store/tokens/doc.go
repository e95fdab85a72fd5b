// Package tokens estimates how many tokens a text costs a model, without a vocabulary. It
// belongs to the "serve" stage of observe → version → index → serve. The read decision uses
// it to compare full text, diff and stub, and the accounts of sessions add up its estimates.
//
// The text is cut into the pieces into which o200k_base cuts it before its byte pair encoding (words
// with one leading character, groups of three digits, punctuation, line ends, blanks). Each piece
// costs what pieces of its shape and length cost on average in source code. The averages are in
// costs.go; TestFit computes them. Over a code corpus the sum is within ±10 % of the real count; a
// single short text can be further off.
//
// The package has no state and no locks. Estimate does not allocate memory.
package tokens

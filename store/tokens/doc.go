// Package tokens estimates how many tokens a text costs a model, without a vocabulary. It is at the
// serve end of observe → version → index → serve: the read decision compares full text, diff and
// stub with it, and the accounts of sessions add up its estimates.
//
// The text is cut into the pieces into which o200k_base cuts it before its byte pair encoding (words
// with one leading character, groups of three digits, punctuation, line ends, blanks). Each piece
// costs what pieces of its shape and length cost on average in source code. The averages are in
// costs.go; TestFit computes them. Over a code corpus the sum is within ±10 % of the real count; a
// single short text can be further off.
//
// No state, no locks; Estimate allocates nothing.
package tokens

// Package jsonschema replaces the validator of JSON schemas that the MCP library imports (see
// go.mod). The library uses the validator only in servers that ask for it, which ours does not. But
// the real one compiles eight schemas when it is initialised, which took 5 ms in every process of
// cachebro. This package has the names that the library needs, and refuses to compile.
package jsonschema

import (
	"errors"
	"io"
)

// errAbsent is the error for a server that asks for validation.
var errAbsent = errors.New("this program is built without a validator of JSON schemas")

// Schema represents a compiled schema. None is ever made.
type Schema struct{}

// Validate fails.
func (*Schema) Validate(any) error { return errAbsent }

// ValidationError is never returned.
type ValidationError struct {
	InstanceLocation []string
	ErrorKind        any
	Causes           []*ValidationError
}

func (*ValidationError) Error() string { return errAbsent.Error() }

// Compiler compiles nothing.
type Compiler struct{}

// NewCompiler returns a Compiler.
func NewCompiler() *Compiler { return &Compiler{} }

// AddResource fails.
func (*Compiler) AddResource(string, any) error { return errAbsent }

// Compile fails.
func (*Compiler) Compile(string) (*Schema, error) { return nil, errAbsent }

// UnmarshalJSON fails.
func UnmarshalJSON(io.Reader) (any, error) { return nil, errAbsent }

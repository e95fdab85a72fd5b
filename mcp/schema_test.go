package mcp

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
)

// The schema and the parser use the same struct, so each tag counts for both.
func TestSchemaOfStruct(t *testing.T) {
	type args struct {
		Path   string   `json:"path,required" alias:"file" list:"lean"`
		Depth  int      `json:"depth" default:"2"`
		Dir    string   `json:"dir" default:"." doc:"where \"it\" is"`
		Limit  int      `json:"limit" unlisted:"50"`
		Only   patterns `json:"only"`
		Paths  []string `json:"paths"`
		Dry    *bool    `json:"dry"`
		Hidden bool     `json:"hidden" list:"never"`
	}
	typ := reflect.TypeFor[args]()
	const full = `{"type":"object","properties":{"path":{"type":"string"},"depth":{"type":"integer","default":2},` +
		`"dir":{"type":"string","default":".","description":"where \"it\" is"},"limit":{"type":"integer"},"only":{"type":"string"},` +
		`"paths":{"type":"array","items":{"type":"string"}},"dry":{"type":"boolean"}},"required":["path"]}`
	if got := string(schemaOf(typ, false)); got != full {
		t.Errorf("schema:\n got %s\nwant %s", got, full)
	}
	if got := string(schemaOf(typ, true)); got != `{"type":"object","properties":{"path":{"type":"string"}}}` {
		t.Errorf("lean schema: %s", got)
	}
	var a args
	req := mcp.CallToolRequest{Params: mcp.CallToolParams{Arguments: json.RawMessage(`{"file":"x","hidden":true,"only":["*.go"],"dir":null}`)}}
	if err := bind(req, &a); err != nil {
		t.Fatal(err)
	}
	if want := (args{Path: "x", Depth: 2, Dir: ".", Limit: 50, Only: patterns{"*.go"}, Hidden: true}); !reflect.DeepEqual(a, want) {
		t.Errorf("bound %+v, want %+v", a, want)
	}
	req.Params.Arguments = json.RawMessage(`{"depth":1}`)
	if err := bind(req, &a); err == nil || err.Error() != "argument path is missing" {
		t.Error(err)
	}
}

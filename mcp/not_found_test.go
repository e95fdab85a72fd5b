package mcp

import (
	"encoding/json"
	"testing"
)

// The error for a resource that does not exist names the resource, in both revisions of the
// protocol and over both transports.
func TestMissingResourceIsNamed(t *testing.T) {
	const uri = "cachebro://nothing"
	check := func(r reply, code int) {
		t.Helper()
		if e := r.Error; e == nil || e.Code != code || e.Data.URI != uri {
			t.Errorf("%+v, want code %d", e, code)
		}
	}
	root := project(t, nil)
	p := connect(t, Options{Root: root})
	check(p.call("resources/read", map[string]any{"uri": uri}), -32002)
	check(p.call("resources/read", modern(map[string]any{"uri": uri})), -32602)

	url := web(t, Options{Root: root})
	overHTTP := func(header map[string]string, params map[string]any) (r reply) {
		_, body := post(t, url, header, request(2, "resources/read", params))
		if err := json.Unmarshal([]byte(body), &r); err != nil {
			t.Errorf("%v: %s", err, body)
		}
		return r
	}
	check(overHTTP(map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "resources/read", "Mcp-Name": uri}, modern(map[string]any{"uri": uri})), -32602)
	hello := request(1, "initialize", map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "t", "version": "0"}})
	res, _ := post(t, url, nil, hello)
	check(overHTTP(map[string]string{"Mcp-Session-Id": res.Header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version": "2025-11-25"}, map[string]any{"uri": uri}), -32002)
}

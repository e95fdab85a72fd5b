package mcp

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

// A stream consists of its acknowledgement, the requested notifications, and its answer, in this
// order, even if it ends while notifications arrive.
func TestStreamOrder(t *testing.T) {
	const rounds = 200
	p := connectRaw(t, Options{Root: project(t, nil), Profile: ProfileAll})
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			p.send(map[string]any{"jsonrpc": "2.0", "id": fmt.Sprint("write", i), "method": "tools/call",
				"params": modern(map[string]any{"name": "write_file", "arguments": map[string]any{"path": fmt.Sprint("f", i%40), "content": fmt.Sprint(i)}})})
			time.Sleep(100 * time.Microsecond)
		}
	}()
	defer func() { close(stop); <-stopped }()
	begun, ended, news := map[any]bool{}, map[any]bool{}, 0
	listen := func(i int) string {
		id := fmt.Sprint("stream", i)
		p.send(map[string]any{"jsonrpc": "2.0", "id": id, "method": "subscriptions/listen",
			"params": modern(map[string]any{"notifications": map[string]any{"resourcesListChanged": i%10 != 9}})}) // every tenth stream requests nothing
		return id
	}
	const tag = "io.modelcontextprotocol/subscriptionId"
	id := listen(0)
	for i := 0; i < rounds; {
		var m reply
		select {
		case m = <-p.notes:
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: acknowledged %v, ended %v", id, begun[id], ended[id])
		}
		var of struct {
			Meta map[string]any `json:"_meta"`
		}
		if len(m.Params) > 0 {
			if err := json.Unmarshal(m.Params, &of); err != nil {
				t.Fatal(err)
			}
		}
		switch of := of.Meta[tag]; m.Method {
		case "notifications/subscriptions/acknowledged":
			if begun[of] || ended[of] {
				t.Errorf("%v is acknowledged twice, or after its end", of)
			}
			begun[of] = true
			p.send(map[string]any{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": map[string]any{"requestId": of}})
		case "notifications/resources/list_changed":
			if news++; !begun[of] || ended[of] {
				t.Errorf("news of %v: acknowledged %v, ended %v", of, begun[of], ended[of])
			}
		case "":
			if m.ID != id {
				continue // this is the answer to a write
			}
			if ended[id] = true; !begun[id] {
				t.Errorf("%s is answered without an acknowledgement", id)
			}
			i++
			id = listen(i)
		}
	}
	if news == 0 {
		t.Error("there was no news")
	}
	t.Logf("%d streams, %d news", rounds, news)
}

package wire

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
)

// ReadJSON reads a small file of a state directory.
func ReadJSON(name string, v any) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

// WriteJSON replaces a small file of a state directory atomically. If several processes write, the
// last one wins.
func WriteJSON(name string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ") // people read some of them
	if err != nil {
		return err
	}
	tmp := name + "." + strconv.Itoa(os.Getpid())
	err = os.WriteFile(tmp, append(b, '\n'), 0o600)
	if err == nil {
		err = os.Rename(tmp, name)
	}
	if err != nil {
		_ = os.Remove(tmp)
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

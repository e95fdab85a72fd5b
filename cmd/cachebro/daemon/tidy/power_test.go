package tidy

import (
	"os"
	"path/filepath"
	"testing"
)

func TestOnBattery(t *testing.T) {
	type supply map[string]string
	battery, empty := supply{"type": "Battery", "status": "Discharging"}, supply{"type": "Battery", "status": "Charging"}
	mouse := supply{"type": "Battery", "status": "Discharging", "scope": "Device"}
	for name, c := range map[string]struct {
		supplies map[string]supply
		want     bool
	}{
		"a server":         {nil, false},
		"on the road":      {map[string]supply{"AC": {"type": "Mains", "online": "0"}, "BAT0": battery}, true},
		"two batteries":    {map[string]supply{"AC": {"type": "Mains", "online": "0"}, "BAT0": {"type": "Battery", "status": "Unknown"}, "BAT1": battery}, true},
		"at a desk":        {map[string]supply{"AC": {"type": "Mains", "online": "1"}, "BAT0": empty}, false},
		"weak mains":       {map[string]supply{"BAT0": battery, "ucsi": {"type": "USB", "online": "1"}}, false},
		"wireless mouse":   {map[string]supply{"hidpp_battery_0": mouse}, false},
		"nothing reported": {map[string]supply{"odd": {}}, false},
	} {
		dir := t.TempDir()
		for s, files := range c.supplies {
			if err := os.Mkdir(filepath.Join(dir, s), 0o700); err != nil {
				t.Fatal(err)
			}
			for f, text := range files {
				if err := os.WriteFile(filepath.Join(dir, s, f), []byte(text+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := onBattery(dir); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if onBattery(filepath.Join(t.TempDir(), "none")) {
		t.Error("without a list of supplies")
	}
}

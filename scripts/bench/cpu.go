//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// cpu returns the user and system time of processes, which on a busy machine tells more than wall
// time.
func cpu(pids ...int) (sum time.Duration) {
	for _, pid := range pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
		for _, at := range []int{11, 12} { // utime, stime in ticks of 10 ms
			if n, err := strconv.Atoi(string(f[at])); err == nil {
				sum += time.Duration(n) * 10 * time.Millisecond
			}
		}
	}
	return sum
}

// statusOf returns the status of the project in dir as JSON.
func statusOf(binary, dir string) ([]byte, error) {
	cmd := exec.Command(binary, "status", "--json")
	cmd.Dir = dir
	return cmd.Output()
}

// daemonOf returns the process id of the project's store daemon.
func daemonOf(binary, dir string) (int, error) {
	out, err := statusOf(binary, dir)
	if err != nil {
		return 0, fmt.Errorf("status: %w", err)
	}
	var s struct {
		PID int `json:"daemon_pid"`
	}
	return s.PID, json.Unmarshal(out, &s)
}

// Package attribution determines who made a change: it joins processes to sessions, prompts,
// tool calls and plans.
package attribution

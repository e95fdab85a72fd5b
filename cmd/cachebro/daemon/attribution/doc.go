// Package attribution says who is behind a change: it joins processes to
// sessions, prompts, tool calls and plans.
package attribution

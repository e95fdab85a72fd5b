package survey

import (
	"context"

	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/store"
)

// actorKey is the key of a context's actor, the author of what a look finds changed.
type actorKey struct{}

// WithActor names the author of what a look with this context finds changed.
func WithActor(ctx context.Context, a store.Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

func actorIn(ctx context.Context) store.Actor {
	if a, ok := ctx.Value(actorKey{}).(store.Actor); ok {
		return a
	}
	return attribution.Outsider
}

// planKey is the key of a context's plan, which made what a look finds changed.
type planKey struct{}

// WithPlan names the plan that made what a look with this context finds changed.
func WithPlan(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, planKey{}, id)
}

func planIn(ctx context.Context) string {
	id, _ := ctx.Value(planKey{}).(string)
	return id
}

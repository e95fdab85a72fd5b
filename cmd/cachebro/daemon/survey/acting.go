package survey

import (
	"context"

	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/store"
)

// actorKey is the context key of the author of the changes that a look finds.
type actorKey struct{}

// WithActor sets the author of the changes that a look with this context finds.
func WithActor(ctx context.Context, a store.Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

func actorIn(ctx context.Context) store.Actor {
	if a, ok := ctx.Value(actorKey{}).(store.Actor); ok {
		return a
	}
	return attribution.Outsider
}

// planKey is the context key of the plan that made the changes that a look finds.
type planKey struct{}

// WithPlan sets the plan that made the changes that a look with this context finds.
func WithPlan(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, planKey{}, id)
}

func planIn(ctx context.Context) string {
	id, _ := ctx.Value(planKey{}).(string)
	return id
}

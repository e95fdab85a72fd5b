package daemon

import (
	"context"

	"cachebro/store"
	"cachebro/store/daemon/attribution"
)

// actorKey is the context's actor: what is found changed then, it has changed.
type actorKey struct{}

func withActor(ctx context.Context, a store.Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

func actorIn(ctx context.Context) store.Actor {
	if a, ok := ctx.Value(actorKey{}).(store.Actor); ok {
		return a
	}
	return attribution.Outsider
}

// planKey is the context's plan: what is found changed then, it has changed.
type planKey struct{}

func withPlan(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, planKey{}, id)
}

func planIn(ctx context.Context) string {
	id, _ := ctx.Value(planKey{}).(string)
	return id
}

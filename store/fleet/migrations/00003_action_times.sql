-- +goose Up
-- With the time, what an action touched is counted in the index of its day alone.
drop index versions_action;
create index versions_action on versions (machine, action, time) where action is not null;

-- +goose Down
drop index versions_action;
create index versions_action on versions (machine, action) where action is not null;

-- +goose Up
-- With the time in the index, the versions of an action are counted in the index of its day only.
drop index versions_action;
create index versions_action on versions (machine, action, time) where action is not null;

-- +goose Down
drop index versions_action;
create index versions_action on versions (machine, action) where action is not null;

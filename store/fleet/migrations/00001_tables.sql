-- +goose Up
create table projects (
    id    integer generated always as identity primary key,
    place text not null unique,
    since timestamptz not null default now()
);

create table machines (
    id       integer generated always as identity primary key,
    project  integer not null references projects,
    machine  text not null,
    name     text not null,
    root     text not null,
    since    timestamptz not null,
    sent     timestamptz,
    segments bigint not null default 0,
    log      text not null default '',
    seq      bigint not null default 0,
    base     text,
    base_seq bigint,
    problem  text,
    unique (project, machine)
);

create table segments (
    machine       integer not null references machines,
    n             bigint not null,
    log           text not null,
    log_size      bigint not null,
    contents      text not null,
    contents_size bigint not null,
    seq           bigint not null,
    gen           integer not null,
    primary key (machine, n)
);

create table sessions (
    machine integer not null references machines,
    id      text not null,
    client  text not null,
    cwd     text not null,
    branch  text not null,
    started timestamptz,
    last    timestamptz,
    ended   timestamptz,
    primary key (machine, id)
);

create table prompts (
    machine integer not null references machines,
    session text not null,
    id      text not null,
    time    timestamptz,
    text    text not null,
    primary key (machine, session, id)
);

create table actions (
    machine integer not null references machines,
    id      text not null,
    kind    text not null,
    session text not null default '',
    agent   text not null default '',
    prompt  text not null default '',
    tool    text not null default '',
    title   text not null default '',
    first   timestamptz,
    last    timestamptz,
    failed  boolean not null default false,
    primary key (machine, id)
);

create table versions (
    machine    integer not null references machines,
    seq        bigint not null,
    time       timestamptz not null,
    op         text not null,
    path       text not null,
    path_bytes bytea,
    other      text,
    blob       bytea,
    size       bigint not null,
    missing    text,
    prev       bigint not null,
    session    text,
    agent      text,
    prompt     text,
    action     text,
    class      text,
    comm       text,
    segment    bigint not null,
    primary key (machine, seq)
);
create index versions_time on versions (time) where op <> 'baseline';
create index versions_path on versions (path, time);
create index versions_session on versions (session, time) where session is not null;
create index versions_blob on versions using hash (blob) where blob is not null;

create view changes as
select v.time, p.place as project, m.name as machine, m.machine as machine_id, v.seq, v.op, v.path, v.other, v.size,
       v.session, v.agent, v.prompt, a.tool, a.title as action, v.comm
from versions v
join machines m on m.id = v.machine
join projects p on p.id = m.project
left join actions a on a.machine = v.machine and a.id = v.action
where v.op <> 'baseline';

-- +goose Down
drop view changes;
drop table versions, actions, prompts, sessions, segments, machines, projects;

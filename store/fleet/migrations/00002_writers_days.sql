-- +goose Up
-- The machines that wrote under an id, with their ranges of versions. An id can be handed over.
create table writers (
    id      integer generated always as identity primary key,
    machine integer not null references machines,
    first   bigint not null,
    last    bigint not null,
    name    text not null,
    root    text not null,
    unique (machine, first)
);
create index writers_name on writers (name);
insert into writers (machine, first, last, name, root) select id, 1, 9223372036854775807, name, root from machines;

alter table machines add column base_n bigint, add column fed_by text, add column fed_until timestamptz;
alter table segments add column last timestamptz;
create index actions_failed on actions (last) where failed;

-- Prune has dropped the versions older than since.
create table retention (
    one   boolean primary key default true check (one),
    since timestamptz not null
);

-- Each day has a table of versions, so that whole days can be dropped. Texts are collated by their
-- bytes, because only then an index finds the paths that begin with a text.
drop view changes;
alter table versions rename to versions_undivided;
drop index versions_time, versions_path, versions_session, versions_blob;
create table versions (
    machine    integer not null,
    seq        bigint not null,
    time       timestamptz not null,
    op         text not null,
    path       text collate "C" not null,
    path_bytes bytea,
    other      text,
    blob       bytea,
    size       bigint not null,
    missing    text,
    prev       bigint not null,
    session    text collate "C",
    agent      text,
    prompt     text,
    action     text,
    class      text,
    comm       text,
    segment    bigint not null
) partition by range (time);

create table versions_before partition of versions for values from (minvalue) to ('2000-01-01 00:00:00+00');
create table versions_after partition of versions for values from ('2100-01-01 00:00:00+00') to (maxvalue);

-- +goose StatementBegin
create function versions_day(day date) returns void language plpgsql as $$
declare
    part text := 'versions_' || to_char(day, 'YYYYMMDD');
begin
    if day < '2000-01-01' or day >= '2100-01-01' then
        return;
    end if;
    perform pg_advisory_xact_lock(1667326824, 0);
    if to_regclass(part) is null then
        execute format('create table %I (like versions including defaults including constraints)', part);
        execute format('alter table versions attach partition %I for values from (%L) to (%L)', part,
            day::timestamp at time zone 'UTC', (day + 1)::timestamp at time zone 'UTC');
    end if;
end $$;
-- +goose StatementEnd
select versions_day(day) from (select distinct (time at time zone 'UTC')::date as day from versions_undivided) d;

insert into versions select * from versions_undivided;
update segments s set last = v.last from
    (select machine, segment, max(time) as last from versions_undivided group by 1, 2) v
    where v.machine = s.machine and v.segment = s.n;
drop table versions_undivided;

alter table versions add primary key (machine, seq, time);
create index versions_time on versions (time) where op <> 'baseline';
create index versions_path on versions (path, time);
create index versions_session on versions (session, time) where session is not null;
create index versions_action on versions (machine, action) where action is not null;
create index versions_blob on versions using hash (blob) where blob is not null;

create view changes as
select v.time, p.place as project, coalesce(w.name, '?') as machine, m.machine as machine_id, v.seq, v.op, v.path, v.other, v.size,
       v.session, v.agent, v.prompt, a.tool, a.title as action, v.comm
from versions v
join machines m on m.id = v.machine
join projects p on p.id = m.project
left join writers w on w.machine = v.machine and v.seq between w.first and w.last
left join actions a on a.machine = v.machine and a.id = v.action
where v.op <> 'baseline';

-- +goose Down
drop view changes;
create table versions_undivided (like versions including defaults);
insert into versions_undivided select * from versions;
drop table versions;
drop function versions_day;
alter table versions_undivided rename to versions;
alter table versions alter column path type text collate "default", alter column session type text collate "default",
    add primary key (machine, seq), add foreign key (machine) references machines;
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
drop index actions_failed;
alter table segments drop column last;
alter table machines drop column base_n, drop column fed_by, drop column fed_until;
drop table retention, writers;

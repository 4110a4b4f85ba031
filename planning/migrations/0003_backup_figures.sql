-- Figures of backups for the app's administrators, whose role cannot read schema `basalt`.

create function functions.backup_figures() returns jsonb
language sql stable security definer set search_path = '' as $$
  select jsonb_object_agg(kinds.kind, jsonb_build_object(
    'finished_at', last.finished_at,
    'error', left(last.error, 500),
    'succeeded_at', (
      select max(r.finished_at) from basalt.backup_runs r
      where r.kind = kinds.kind and r.finished_at is not null and r.error is null
    ),
    'due_at', (select j.due_at from basalt.backup_jobs j where j.kind = kinds.kind)
  ))
  from (values ('backup'), ('verify')) as kinds (kind)
  left join lateral (
    select r.finished_at, r.error from basalt.backup_runs r
    where r.kind = kinds.kind and r.finished_at is not null
    order by r.finished_at desc
    limit 1
  ) last on true
$$;
comment on function functions.backup_figures() is 'End and error of the last backup and verification, the last success, and the next time.';

revoke execute on function functions.backup_figures() from public;
grant execute on function functions.backup_figures() to postgres;

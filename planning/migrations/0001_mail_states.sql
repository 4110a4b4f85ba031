-- What the app may know of the outbox: the state of the mails that it names, and figures. Contents stay encrypted.

create function functions.mail_states(ids bigint[])
returns table (id bigint, state text, has_failed boolean)
language sql stable security definer set search_path = '' as $$
  select m.id, m.state, m.last_error is not null
  from basalt.mail_outbox m
  where m.id = any (ids)
$$;
comment on function functions.mail_states(bigint[]) is 'State of queued mails; no row for a mail whose retention has passed.';

create function functions.mail_figures() returns jsonb
language sql stable security definer set search_path = '' as $$
  select jsonb_build_object(
    'waiting', count(*) filter (where m.state = 'queued'),
    'oldest_waiting', min(m.created_at) filter (where m.state = 'queued'),
    'abandoned', count(*) filter (where m.state = 'dead' and m.sealed is not null),
    'last_error', (
      select left(e.last_error, 500)
      from basalt.mail_outbox e
      where e.state in ('queued', 'dead') and e.last_error is not null
      order by e.id desc
      limit 1
    )
  )
  from basalt.mail_outbox m
  where m.state in ('queued', 'dead')
$$;
comment on function functions.mail_figures() is 'Waiting and abandoned mails, and the newest error.';

revoke execute on function functions.mail_states(bigint[]), functions.mail_figures() from public;
grant usage on schema functions to postgres;
grant execute on function functions.mail_states(bigint[]), functions.mail_figures() to postgres;

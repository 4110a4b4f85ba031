-- When what was missed at the card provider was last asked for: of several servers one does it, once a day (functions.md
-- 3.17.6). One row at most.

create table functions.caught_up (
  only_one boolean primary key default true,
  at timestamptz not null,
  constraint caught_up_has_one_row check (only_one)
);
comment on table functions.caught_up is 'When a server last asked the card provider for what it may have missed. For the server only.';
alter table functions.caught_up enable row level security;
grant select, insert, update on functions.caught_up to service_role;

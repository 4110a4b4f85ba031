-- Ours: how often somebody was wrong about a pending code (auth.md 3.19). Not in schema auth, whose tables are API, and
-- where every new table is granted to postgres. The count belongs to one row of one_time_tokens; a newer code of the
-- same user and type has another id and starts at none.

create table basalt.one_time_attempts (
  user_id uuid not null references auth.users (id) on delete cascade,
  token_type text not null,
  token_id uuid not null,
  failures smallint not null,
  primary key (user_id, token_type)
);

grant usage on schema basalt to supabase_auth_admin;
grant select, insert, update, delete on basalt.one_time_attempts to supabase_auth_admin;

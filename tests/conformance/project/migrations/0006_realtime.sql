-- Tables whose changes clients hear of.

create table watched_notes (
  id bigint primary key generated always as identity,
  owner uuid not null default auth.uid(),
  board text not null,
  title text,
  secret text
);
alter table watched_notes enable row level security;
create policy own on watched_notes to authenticated using (owner = (select auth.uid())) with check (owner = (select auth.uid()));
revoke all on watched_notes from anon, authenticated;
grant select (id, owner, board, title), insert, update, delete on watched_notes to authenticated;

create table watched_open (
  id bigint primary key generated always as identity,
  board text not null,
  title text
);
alter table watched_open replica identity full;
grant select on watched_open to anon, authenticated;
grant all on watched_notes, watched_open to service_role;

create table unwatched (id bigint primary key);
grant select on unwatched to anon, authenticated;

alter publication supabase_realtime add table watched_notes, watched_open;

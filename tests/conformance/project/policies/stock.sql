-- Open to signed-in people; used for constraints.
alter table stock enable row level security;
grant select, insert, update, delete on stock to authenticated, service_role;

drop policy if exists "signed in people do everything" on stock;
create policy "signed in people do everything" on stock for all to authenticated using (true) with check (true);

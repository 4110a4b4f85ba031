-- Open to signed-in people; used for upserts.
alter table settings enable row level security;
grant select, insert, update, delete on settings to authenticated, service_role;

drop policy if exists "signed in people do everything" on settings;
create policy "signed in people do everything" on settings for all to authenticated using (true) with check (true);

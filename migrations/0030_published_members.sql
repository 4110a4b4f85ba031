-- Private channels check their members again when this table changes, so that a removed member receives nothing more
-- (decision 0182). Addresses and invitation tokens are not published.
do $$
begin
  if exists (select from pg_catalog.pg_publication where pubname = 'supabase_realtime') then
    alter publication supabase_realtime add table
      public.plan_members (id, plan_id, user_id, role, invite_accepted);
  end if;
end $$;

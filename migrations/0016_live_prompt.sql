-- Who has the site open sees what an administrator saves; the prompt was the last that a new page had to be opened for.
do $$
begin
  if exists (select from pg_catalog.pg_publication where pubname = 'supabase_realtime') then
    alter publication supabase_realtime add table public.subscription_prompt;
  end if;
end $$;

alter table public.marketing_content enable row level security;
revoke all on public.marketing_content from anon, authenticated, service_role;
grant select on public.marketing_content to anon, authenticated;
grant insert, update, delete on public.marketing_content to authenticated;
grant all on public.marketing_content to service_role;

drop policy if exists "everyone reads" on public.marketing_content;
create policy "everyone reads" on public.marketing_content
  for select to anon, authenticated
  using (true);

drop policy if exists "administrators add" on public.marketing_content;
create policy "administrators add" on public.marketing_content
  for insert to authenticated
  with check ((select public.is_admin()));

drop policy if exists "administrators edit" on public.marketing_content;
create policy "administrators edit" on public.marketing_content
  for update to authenticated
  using ((select public.is_admin()));

drop policy if exists "administrators delete" on public.marketing_content;
create policy "administrators delete" on public.marketing_content
  for delete to authenticated
  using ((select public.is_admin()));

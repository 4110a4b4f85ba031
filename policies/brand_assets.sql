alter table public.brand_assets enable row level security;
revoke all on public.brand_assets from anon, authenticated, service_role;
grant select on public.brand_assets to anon, authenticated;
grant insert, update, delete on public.brand_assets to authenticated;
grant all on public.brand_assets to service_role;

drop policy if exists "everyone reads" on public.brand_assets;
create policy "everyone reads" on public.brand_assets
  for select to anon, authenticated
  using (true);

drop policy if exists "administrators add" on public.brand_assets;
create policy "administrators add" on public.brand_assets
  for insert to authenticated
  with check ((select public.is_admin()));

drop policy if exists "administrators edit" on public.brand_assets;
create policy "administrators edit" on public.brand_assets
  for update to authenticated
  using ((select public.is_admin()));

drop policy if exists "administrators delete" on public.brand_assets;
create policy "administrators delete" on public.brand_assets
  for delete to authenticated
  using ((select public.is_admin()));

-- Buckets of these names take objects of every user, who then has them to themselves.
drop policy if exists "owners write" on storage.objects;
create policy "owners write" on storage.objects for all to authenticated
  using (bucket_id like 'writes-%' and owner_id = (select auth.jwt() ->> 'sub'))
  with check (bucket_id like 'writes-%' and owner_id = (select auth.jwt() ->> 'sub'));

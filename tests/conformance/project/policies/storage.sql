-- Who has signed in lists `listed`, and keeps buckets of their own. Visitors see nothing.
drop policy if exists "signed-in people list" on storage.objects;
create policy "signed-in people list" on storage.objects for select to authenticated using (bucket_id = 'listed');
drop policy if exists "owners" on storage.buckets;
create policy "owners" on storage.buckets for all to authenticated
  using (owner_id = (select auth.jwt() ->> 'sub')) with check (owner_id = (select auth.jwt() ->> 'sub'));

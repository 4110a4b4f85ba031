-- In buckets of these names users have what they put there to themselves.
drop policy if exists "owners read what they wrote" on storage.objects;
create policy "owners read what they wrote" on storage.objects for all to authenticated
  using (bucket_id like 'reads-%' and owner_id = (select auth.jwt() ->> 'sub'))
  with check (bucket_id like 'reads-%' and owner_id = (select auth.jwt() ->> 'sub'));

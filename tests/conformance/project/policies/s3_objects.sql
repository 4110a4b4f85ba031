-- Buckets of these names have a folder for each user, in which they may do everything.
drop policy if exists "s3 folders" on storage.objects;
create policy "s3 folders" on storage.objects for all to authenticated
  using (bucket_id like 's3-folders-%' and (storage.foldername(name))[1] = (select auth.jwt() ->> 'sub'))
  with check (bucket_id like 's3-folders-%' and (storage.foldername(name))[1] = (select auth.jwt() ->> 'sub'));

-- What users may do by S3: with their own objects in a bucket, everything.
insert into storage.buckets (id, name) values ('s3-personal', 's3-personal');
create policy "s3 owners" on storage.objects for all to authenticated
  using (bucket_id = 's3-personal' and (storage.foldername(name))[1] = (select auth.uid())::text)
  with check (bucket_id = 's3-personal' and (storage.foldername(name))[1] = (select auth.uid())::text);

-- The first folder of a path is the id of the person to whom the file belongs.

drop policy if exists "people read their own attachments" on storage.objects;
create policy "people read their own attachments" on storage.objects
  for select to authenticated
  using (bucket_id = 'attachments' and (storage.foldername(name))[1] = (select auth.uid())::text);

drop policy if exists "people add their own attachments" on storage.objects;
create policy "people add their own attachments" on storage.objects
  for insert to authenticated
  with check (bucket_id = 'attachments' and (storage.foldername(name))[1] = (select auth.uid())::text);

drop policy if exists "people delete their own attachments" on storage.objects;
create policy "people delete their own attachments" on storage.objects
  for delete to authenticated
  using (bucket_id = 'attachments' and (storage.foldername(name))[1] = (select auth.uid())::text);

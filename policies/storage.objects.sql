-- Grants and row-level security of storage.objects are the storage service's. Objects of a plan lie below its id.

drop policy if exists "members read plan_files" on storage.objects;
create policy "members read plan_files" on storage.objects
  for select to authenticated
  using (
    bucket_id = 'plan_files'
    and (storage.foldername(name))[1] = any (array(select mine.id::text from app_private.my_plans() as mine (id)))
  );

drop policy if exists "owners and managers add to plan_files" on storage.objects;
create policy "owners and managers add to plan_files" on storage.objects
  for insert to authenticated
  with check (
    bucket_id = 'plan_files'
    and (storage.foldername(name))[1]
      = any (array(select mine.id::text from app_private.my_plans('{owner,manager}') as mine (id)))
    and app_private.has_room_for_files((storage.foldername(name))[1])
  );

drop policy if exists "owners and managers delete from plan_files" on storage.objects;
create policy "owners and managers delete from plan_files" on storage.objects
  for delete to authenticated
  using (
    bucket_id = 'plan_files'
    and (storage.foldername(name))[1]
      = any (array(select mine.id::text from app_private.my_plans('{owner,manager}') as mine (id)))
  );

-- Everyone reads the logos by their URLs; those who may replace one must see it.
drop policy if exists "owners and managers see org_logos" on storage.objects;
create policy "owners and managers see org_logos" on storage.objects
  for select to authenticated
  using (
    bucket_id = 'org_logos'
    and (storage.foldername(name))[1]
      = any (array(select mine.id::text from app_private.my_plans('{owner,manager}') as mine (id)))
  );

drop policy if exists "owners and managers add org_logos" on storage.objects;
create policy "owners and managers add org_logos" on storage.objects
  for insert to authenticated
  with check (
    bucket_id = 'org_logos'
    and (storage.foldername(name))[1]
      = any (array(select mine.id::text from app_private.my_plans('{owner,manager}') as mine (id)))
  );

drop policy if exists "owners and managers replace org_logos" on storage.objects;
create policy "owners and managers replace org_logos" on storage.objects
  for update to authenticated
  using (
    bucket_id = 'org_logos'
    and (storage.foldername(name))[1]
      = any (array(select mine.id::text from app_private.my_plans('{owner,manager}') as mine (id)))
  );

drop policy if exists "owners and managers delete org_logos" on storage.objects;
create policy "owners and managers delete org_logos" on storage.objects
  for delete to authenticated
  using (
    bucket_id = 'org_logos'
    and (storage.foldername(name))[1]
      = any (array(select mine.id::text from app_private.my_plans('{owner,manager}') as mine (id)))
  );

drop policy if exists "administrators see the site's logos" on storage.objects;
create policy "administrators see the site's logos" on storage.objects
  for select to authenticated
  using (bucket_id = 'public' and (select public.is_admin()));

drop policy if exists "administrators add the site's logos" on storage.objects;
create policy "administrators add the site's logos" on storage.objects
  for insert to authenticated
  with check (bucket_id = 'public' and (storage.foldername(name))[1] = 'logos' and (select public.is_admin()));

drop policy if exists "administrators replace the site's logos" on storage.objects;
create policy "administrators replace the site's logos" on storage.objects
  for update to authenticated
  using (bucket_id = 'public' and (storage.foldername(name))[1] = 'logos' and (select public.is_admin()));

drop policy if exists "administrators delete the site's logos" on storage.objects;
create policy "administrators delete the site's logos" on storage.objects
  for delete to authenticated
  using (bucket_id = 'public' and (select public.is_admin()));

-- Each user has a folder, which is named after the user's id. Everyone reads the pictures by their URLs.
drop policy if exists "users see their avatars" on storage.objects;
create policy "users see their avatars" on storage.objects
  for select to authenticated
  using (bucket_id = 'avatars' and (storage.foldername(name))[1] = (select auth.uid())::text);

drop policy if exists "users add their avatars" on storage.objects;
create policy "users add their avatars" on storage.objects
  for insert to authenticated
  with check (
    bucket_id = 'avatars'
    and (storage.foldername(name))[1] = (select auth.uid())::text
    and (select app_private.has_required_factor())
  );

drop policy if exists "users delete their avatars" on storage.objects;
create policy "users delete their avatars" on storage.objects
  for delete to authenticated
  using (bucket_id = 'avatars' and (storage.foldername(name))[1] = (select auth.uid())::text);

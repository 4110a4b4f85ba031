-- Where files go. Rights are in policies/storage_objects.sql. No HTML, and SVG only where administrators alone write.

insert into storage.buckets (id, name, public, file_size_limit, allowed_mime_types) values
  ('plan_files', 'plan_files', false, 52428800, array[
    'application/pdf', 'image/png', 'image/jpeg', 'image/gif', 'image/webp', 'text/plain', 'text/csv',
    'text/markdown', 'application/rtf', 'application/zip', 'application/msword', 'application/vnd.ms-excel',
    'application/vnd.ms-powerpoint',
    'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
    'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
    'application/vnd.openxmlformats-officedocument.presentationml.presentation',
    'application/vnd.oasis.opendocument.text', 'application/vnd.oasis.opendocument.spreadsheet',
    'application/vnd.oasis.opendocument.presentation'
  ]),
  ('org_logos', 'org_logos', true, 5242880, array['image/png', 'image/jpeg', 'image/gif', 'image/webp']),
  ('public', 'public', true, 5242880, array[
    'image/png', 'image/jpeg', 'image/gif', 'image/webp', 'image/svg+xml', 'image/x-icon', 'image/vnd.microsoft.icon'
  ])
on conflict (id) do nothing;

-- Resumable uploads (storage.md §3.15). The bytes of each PATCH are a blob; the last one makes them one blob, of the object.

set local role supabase_storage_admin;

create table storage.tus_uploads (
  id uuid primary key,
  bucket_id text not null references storage.buckets (id) on delete cascade,
  key text collate "C" not null,
  -- Null: the client has not said yet.
  upload_length bigint check (upload_length >= 0),
  owner_id text,
  mime_type text not null,
  cache_control text not null,
  user_metadata jsonb,
  -- `Upload-Metadata`, as HEAD shows it.
  upload_metadata text not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  -- The object is there; the row stays until it expires, for clients that did not hear of it.
  completed_at timestamptz
);
create index tus_uploads_bucket_id on storage.tus_uploads (bucket_id);
create index tus_uploads_expires_at on storage.tus_uploads (expires_at);

create table storage.tus_upload_parts (
  upload_id uuid not null references storage.tus_uploads (id) on delete cascade,
  start_at bigint not null check (start_at >= 0),
  size bigint not null check (size > 0),
  -- The blob.
  version text not null,
  md5 bytea not null,
  -- Of two servers that take the same bytes, one stores them.
  primary key (upload_id, start_at)
);
create index tus_upload_parts_version on storage.tus_upload_parts (version text_pattern_ops);

-- No policy: only service_role and the owner get at them.
alter table storage.tus_uploads enable row level security;
alter table storage.tus_upload_parts enable row level security;
revoke all on storage.tus_uploads, storage.tus_upload_parts from public, anon, authenticated, service_role;
grant select, insert, update, delete on storage.tus_uploads, storage.tus_upload_parts to service_role;

create or replace view storage.blob_references (version, holder) as
  select o.version, 'object ' || o.bucket_id || '/' || o.name from storage.objects o
  union all
  select p.version, 'part ' || p.part_number || ' of upload ' || p.upload_id from storage.s3_multipart_uploads_parts p
  union all
  select t.version, 'bytes from ' || t.start_at || ' of resumable upload ' || t.upload_id from storage.tus_upload_parts t;

create trigger discard_blob_of_deleted after delete on storage.tus_upload_parts
  for each row execute function storage.discard_old_version();
create trigger discard_blobs_of_truncated before truncate on storage.tus_upload_parts
  for each statement execute function storage.discard_all_versions();

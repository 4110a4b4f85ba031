-- Which blobs may go. The bytes of an object lie in a blob, a file or an S3 object, whose name is the row's `version`. A blob
-- that is being written has an intent; its row takes the intent's place in one transaction. A row that goes, or gets another
-- blob, leaves its blob to the garbage, whoever changes it and how: so deleting rows never loses track of bytes, and bytes are
-- only deleted after the commit.

set local role supabase_storage_admin;

-- A blob that is being written, or was when its server died.
create table storage.blob_intents (
  blob uuid primary key,
  -- Its writer moves this ahead every minute. An intent that was left alone for an hour is nobody's.
  heartbeat_at timestamptz not null default now()
);
create index blob_intents_heartbeat_at on storage.blob_intents (heartbeat_at);

-- Jobs: each deletes a blob to which no row refers.
create table storage.blob_garbage (
  blob uuid primary key,
  -- `row`: a row is gone. `intent`: the blob was perhaps never finished.
  kind text not null check (kind in ('row', 'intent')),
  created_at timestamptz not null default now(),
  attempts integer not null default 0,
  -- Readers who began before the commit have this long to come to the blob.
  next_attempt_at timestamptz not null default now() + interval '5 minutes',
  given_up_at timestamptz,
  last_error text
);
create index blob_garbage_due on storage.blob_garbage (next_attempt_at) where given_up_at is null;

-- No policy: only service_role and the owner get at them.
alter table storage.blob_intents enable row level security;
alter table storage.blob_garbage enable row level security;
revoke all on storage.blob_intents, storage.blob_garbage from public, anon, authenticated, service_role;
grant select, insert, delete on storage.blob_intents to service_role;

-- Before a blob is deleted, rows are looked for that refer to it.
create index objects_version on storage.objects (version text_pattern_ops);
create index s3_multipart_uploads_parts_version on storage.s3_multipart_uploads_parts (version text_pattern_ops);

-- The text of one of our names: what rows from elsewhere hold is none, and no file has its name.
create function storage.blob_of(version text) returns uuid
language sql immutable parallel safe
return case
  when version ~ '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' then version::uuid
end;

-- Every row with a blob, and what it is. Migrations that bring further tables replace it with one that has them as well.
create view storage.blob_references (version, holder) as
  select o.version, 'object ' || o.bucket_id || '/' || o.name from storage.objects o
  union all
  select p.version, 'part ' || p.part_number || ' of upload ' || p.upload_id from storage.s3_multipart_uploads_parts p;
revoke all on storage.blob_references from public, anon, authenticated, service_role;

-- A blob that was garbage before begins anew: the worker that just found a row which refers to it, gone by now, must not take
-- this note with it.
create function storage.discard_blob(version text) returns void
language sql set search_path = ''
begin atomic
  insert into storage.blob_garbage as garbage (blob, kind)
  select storage.blob_of(discard_blob.version), 'row'
  where storage.blob_of(discard_blob.version) is not null
  on conflict (blob) do update
    set attempts = 0, next_attempt_at = now() + interval '5 minutes', given_up_at = null, last_error = null;
end;

-- Fires for cascades too, and for whoever may delete. As its owner: nobody else may write to the garbage.
create function storage.discard_old_version() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform storage.discard_blob(old.version);
  return null;
end $$;

-- TRUNCATE fires no trigger for rows.
create function storage.discard_all_versions() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  execute format('select storage.discard_blob(t.version) from %I.%I t', tg_table_schema, tg_table_name);
  return null;
end $$;

create trigger discard_blob_of_deleted after delete on storage.objects
  for each row execute function storage.discard_old_version();
create trigger discard_blob_of_replaced after update of version on storage.objects
  for each row when (old.version is distinct from new.version)
  execute function storage.discard_old_version();
create trigger discard_blobs_of_truncated before truncate on storage.objects
  for each statement execute function storage.discard_all_versions();

create trigger discard_blob_of_deleted after delete on storage.s3_multipart_uploads_parts
  for each row execute function storage.discard_old_version();
create trigger discard_blob_of_replaced after update of version on storage.s3_multipart_uploads_parts
  for each row when (old.version is distinct from new.version)
  execute function storage.discard_old_version();
create trigger discard_blobs_of_truncated before truncate on storage.s3_multipart_uploads_parts
  for each statement execute function storage.discard_all_versions();

revoke all on function storage.blob_of(text), storage.discard_blob(text), storage.discard_old_version(), storage.discard_all_versions()
  from public, anon, authenticated, service_role;

-- Unfinished uploads are counted for each client, so that nobody fills the disk with beginnings.

set local role supabase_storage_admin;

-- A user, or the role and network of a visitor. Null: the service role, whose uploads are not counted.
alter table storage.tus_uploads add column client text;
create index tus_uploads_unfinished on storage.tus_uploads (client) where completed_at is null;
create index s3_multipart_uploads_owner on storage.s3_multipart_uploads (owner_id, created_at);

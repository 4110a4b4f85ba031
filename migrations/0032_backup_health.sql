-- As in 0018, with the last backup and the last verification.
create or replace function public.admin_health() returns jsonb
language plpgsql stable security definer set search_path = '' as $$
begin
  perform app_private.require_admin();
  return jsonb_build_object(
    'webhooks', (
      select jsonb_build_object(
        'processed', count(*) filter (where e.status = 'processed'),
        'pending', count(*) filter (where e.status = 'pending'),
        'failed', count(*) filter (where e.status = 'failed'),
        'oldest_pending', min(e.created_at) filter (where e.status = 'pending'),
        'newest', max(e.created_at)
      )
      from public.webhook_events e
    ),
    'storage', (
      select coalesce(jsonb_agg(
        jsonb_build_object('bucket', b.name, 'files', coalesce(o.files, 0), 'bytes', coalesce(o.bytes, 0)) order by b.name
      ), '[]')
      from storage.buckets b
      left join (
        select o.bucket_id, count(*) as files, sum((o.metadata ->> 'size')::bigint) as bytes
        from storage.objects o
        group by o.bucket_id
      ) o on o.bucket_id = b.id
    ),
    'accounts', (
      select jsonb_build_object(
        'all', count(*),
        'disabled', count(*) filter (where u.banned_until > now()),
        'unconfirmed', count(*) filter (where u.email_confirmed_at is null)
      )
      from auth.users u
      where u.deleted_at is null
    ),
    'mail_configured', exists (select from app_private.secrets s where s.name = 'email_resend'),
    'mail', functions.mail_figures(),
    'backup', functions.backup_figures(),
    'database_bytes', pg_database_size(current_database()),
    'versions', jsonb_build_object(
      'postgresql', current_setting('server_version'),
      'app_migration', (select max(m.version) from supabase_migrations.schema_migrations m)
    ),
    'server_time', now()
  );
end $$;

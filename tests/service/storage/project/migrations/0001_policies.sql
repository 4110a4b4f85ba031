-- Users have what they own, and nobody has more.

create policy "owners" on storage.buckets for all to authenticated
  using (owner_id = (select auth.jwt() ->> 'sub')) with check (owner_id = (select auth.jwt() ->> 'sub'));
create policy "owners" on storage.objects for all to authenticated
  using (owner_id = (select auth.jwt() ->> 'sub')) with check (owner_id = (select auth.jwt() ->> 'sub'));

-- A visitor sees this bucket while it is asked for by its name, in these words.
create policy "asked for" on storage.buckets for select to anon using (
  id = 'seen'
  and storage.allow_only_operation('bucket.get')
  and current_setting('request.method', true) = 'GET'
  and current_setting('request.path', true) = '/bucket/seen'
  and current_setting('request.headers', true)::jsonb ->> 'x-mark' = 'here'
  and current_setting('request.jwt.claims', true)::jsonb ->> 'role' = 'anon'
);

-- Lets a transaction look at a hundred rows of this bucket.
create schema private;
grant usage on schema private to authenticated;
create function private.looks_at_few() returns boolean language plpgsql volatile as $$
declare
  looks integer := coalesce(nullif(current_setting('private.looks', true), '')::integer, 0) + 1;
begin
  if looks > 100 then
    raise exception 'more than a hundred rows were looked at';
  end if;
  perform set_config('private.looks', looks::text, true);
  return true;
end $$;
grant execute on function private.looks_at_few() to authenticated;
create policy "few" on storage.objects for select to authenticated
  using (bucket_id = 'counted' and private.looks_at_few());

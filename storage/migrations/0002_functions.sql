-- What policies and users call (storage.md 4.5), all as the caller, so that row-level security applies. The listing
-- functions come with listing. Bodies in SQL's own form are bound when they are made: the caller's search path cannot
-- change their meaning, and, unlike with a SET clause, the planner can still inline them into a policy.

set local role supabase_storage_admin;

create function storage.foldername(name text) returns text[]
language sql immutable parallel safe
return (string_to_array(name, '/'))[1:cardinality(string_to_array(name, '/')) - 1];

create function storage.filename(name text) returns text
language sql immutable parallel safe
return (string_to_array(name, '/'))[cardinality(string_to_array(name, '/'))];

-- Without a dot the answer is the whole file name: upstream's, and policies count on it.
create function storage.extension(name text) returns text
language sql immutable parallel safe
return split_part(split_part(name, '/', -1), '.', -1);

create function storage.get_size_by_bucket() returns table (size bigint, bucket_id text)
language sql stable
begin atomic
  select sum((o.metadata ->> 'size')::bigint)::bigint, o.bucket_id
  from storage.objects o
  group by o.bucket_id;
end;

-- Tries an insert as the caller and always rolls it back: PT200 is "you may".
create function storage.can_insert_object(bucketid text, name text, owner uuid, metadata jsonb) returns void
language plpgsql as $$
begin
  insert into storage.objects (bucket_id, name, owner, metadata)
  values (can_insert_object.bucketid, can_insert_object.name, can_insert_object.owner, can_insert_object.metadata);
  raise sqlstate 'PT200' using message = 'ROLLBACK', detail = 'rollback successful insert';
end $$;

-- A connection that held the setting in an earlier transaction reads '' afterwards, not NULL.
create function storage.operation() returns text
language sql stable parallel safe
return nullif(current_setting('storage.operation', true), '');

create function storage.allow_any_operation(expected_operations text[]) returns boolean
language sql stable parallel safe
return coalesce(
  regexp_replace(storage.operation(), '^storage\.', '') in (
    select regexp_replace(expected, '^storage\.', '') from unnest(expected_operations) as expected
  ),
  false
);

create function storage.allow_only_operation(expected_operation text) returns boolean
language sql stable parallel safe
return storage.allow_any_operation(array[expected_operation]);

grant execute on all functions in schema storage to postgres, anon, authenticated, service_role;

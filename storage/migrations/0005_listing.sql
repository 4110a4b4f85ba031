-- Lists (storage.md 3.8, 3.9, 4.5). All as the caller, so that row-level security decides what is listed.
--
-- A folder is what names have in common up to a slash; it has no row. Its entry costs one seek in an index, however
-- much lies below it: the list takes the first object of the folder and goes on behind the last. Under row-level
-- security an index is used for comparisons only that cannot leak (text's and timestamps' cannot, lower() can), hence
-- the column `name_lower`: a condition on `lower(name)` would read the bucket from its beginning at each seek.
--
-- No function here sets a search path: policies may call functions that rely on the caller's.

set local role supabase_storage_admin;

alter table storage.objects add column name_lower text generated always as (lower(name)) stored;
comment on column storage.objects.name_lower is 'For lists: names in any case.';
drop index storage.idx_objects_bucket_id_name_lower;
create index idx_objects_bucket_id_name_lower on storage.objects (bucket_id, name_lower collate "C", name collate "C");

-- `p_key` up to the first delimiter behind the prefix: the folder that it lies in. NULL: it lies in none.
create function storage.get_common_prefix(p_key text, p_prefix text, p_delimiter text) returns text
language sql immutable parallel safe
return left(
  p_key,
  length(p_prefix) + length(p_delimiter) - 1
    + nullif(position(p_delimiter in substr(p_key, length(p_prefix) + 1)), 0)
);

-- The entries of one level: objects, and folders as rows without an id whose name ends in the delimiter. Names are those
-- from `p_from` on and before `p_to`, in byte order; with `p_folds_case`, in that of their lower case, which the prefix
-- must have too, and folders that differ in case are one, named as its first object has it.
--
-- Plans are made once, and never sort: what an estimate can gain by sorting a folder's objects is less than what it
-- costs when it is wrong.
create function storage.list_entries(
  p_bucket_id text, p_prefix text, p_delimiter text, p_folds_case boolean, p_from text, p_to text,
  p_descends boolean, p_offset integer, p_limit integer
) returns table (
  name text, id uuid, updated_at timestamptz, created_at timestamptz, last_accessed_at timestamptz, metadata jsonb
)
language plpgsql stable rows 100
set plan_cache_mode = force_generic_plan
set enable_sort = off
as $$
declare
  v_found refcursor;
  v_object record;
  v_folder text;
  v_left bigint := greatest(p_limit, 0)::bigint + greatest(p_offset, 0);
  v_from text := p_from;
  v_to text := p_to;
begin
  <<seek>>
  while v_left > 0 loop
    case
      when p_folds_case and not p_descends then
        open v_found for
          select o.name, o.name_lower as place, o.id, o.updated_at, o.created_at, o.last_accessed_at, o.metadata
          from storage.objects o
          where o.bucket_id = p_bucket_id and o.name_lower collate "C" >= v_from and o.name_lower collate "C" < v_to
          order by o.name_lower collate "C", o.name collate "C"
          limit v_left;
      when p_folds_case then
        open v_found for
          select o.name, o.name_lower as place, o.id, o.updated_at, o.created_at, o.last_accessed_at, o.metadata
          from storage.objects o
          where o.bucket_id = p_bucket_id and o.name_lower collate "C" >= v_from and o.name_lower collate "C" < v_to
          order by o.name_lower collate "C" desc, o.name collate "C" desc
          limit v_left;
      when not p_descends then
        open v_found for
          select o.name, o.name as place, o.id, o.updated_at, o.created_at, o.last_accessed_at, o.metadata
          from storage.objects o
          where o.bucket_id = p_bucket_id and o.name collate "C" >= v_from and o.name collate "C" < v_to
          order by o.name collate "C"
          limit v_left;
      else
        open v_found for
          select o.name, o.name as place, o.id, o.updated_at, o.created_at, o.last_accessed_at, o.metadata
          from storage.objects o
          where o.bucket_id = p_bucket_id and o.name collate "C" >= v_from and o.name collate "C" < v_to
          order by o.name collate "C" desc
          limit v_left;
    end case;
    loop
      fetch v_found into v_object;
      if not found then
        return;
      end if;
      v_folder := storage.get_common_prefix(v_object.place, p_prefix, p_delimiter);
      v_left := v_left - 1;
      if v_left < p_limit then
        if v_folder is null then
          name := v_object.name;
          id := v_object.id;
          updated_at := v_object.updated_at;
          created_at := v_object.created_at;
          last_accessed_at := v_object.last_accessed_at;
          metadata := v_object.metadata;
        else
          name := left(v_object.name, length(v_folder));
          if p_folds_case and p_descends then
            -- Named by its first object in either direction.
            select left(o.name, length(v_folder)) into name
            from storage.objects o
            where o.bucket_id = p_bucket_id
              and o.name_lower collate "C" >= v_folder and o.name_lower collate "C" <= v_object.place
            order by o.name_lower collate "C", o.name collate "C"
            limit 1;
          end if;
          id := null;
          updated_at := null;
          created_at := null;
          last_accessed_at := null;
          metadata := null;
        end if;
        return next;
      end if;
      if v_folder is not null then
        close v_found;
        if p_descends then
          v_to := v_folder;
        else
          v_from := v_folder || chr(1114111); -- the last character there is
        end if;
        continue seek;
      end if;
    end loop;
  end loop;
end $$;

-- Objects and folders below a prefix, in byte order. `start_after` is a name before the first one; `next_token` the last
-- name of the page before, and nothing of a folder comes again behind its name.
create function storage.list_objects_with_delimiter(
  _bucket_id text, prefix_param text, delimiter_param text, max_keys integer default 100,
  start_after text default '', next_token text default '', sort_order text default 'asc'
) returns table (
  name text, id uuid, metadata jsonb, updated_at timestamptz, created_at timestamptz, last_accessed_at timestamptz
)
language plpgsql stable as $$
declare
  v_prefix text := coalesce(prefix_param, '');
  v_delimiter text := nullif(delimiter_param, '');
  v_descends boolean := lower(sort_order) = 'desc';
  v_from text := v_prefix;
  v_to text := v_prefix || chr(1114111);
begin
  if v_descends then
    v_to := least(v_to collate "C", nullif(start_after, ''), nullif(next_token, ''));
  else
    v_from := greatest(
      v_from collate "C",
      nullif(start_after, '') || chr(1),
      nullif(next_token, '') || case
        when next_token = storage.get_common_prefix(next_token, v_prefix, v_delimiter) then chr(1114111)
        else chr(1)
      end
    );
  end if;
  return query
    select e.name, e.id, e.metadata, e.updated_at, e.created_at, e.last_accessed_at
    from storage.list_entries(
      _bucket_id, v_prefix, v_delimiter, false, v_from, v_to, v_descends, 0, coalesce(max_keys, 100)
    ) e;
end $$;

-- The least text from `p_from` on, in byte order, that is `p_folded` but for the case of its letters. A letter has two
-- cases here; keys have no others unless an operator allows all of Unicode.
create function storage.next_spelling(p_folded text, p_from text) returns text
language plpgsql immutable as $$
declare
  v_least text := '';
  v_next text;
  v_char text;
  v_lesser text;
  v_greater text;
begin
  for i in 1..length(p_folded) loop
    v_char := substr(p_folded, i, 1);
    v_least := v_least || least(v_char collate "C", upper(v_char));
  end loop;
  -- As far as `p_from` goes with a spelling, that one, and the last place where another one is greater.
  for i in 1..least(length(p_folded), length(p_from)) loop
    v_char := substr(p_from, i, 1);
    v_lesser := substr(v_least, i, 1);
    v_greater := greatest(substr(p_folded, i, 1) collate "C", upper(substr(p_folded, i, 1)));
    if v_char collate "C" < v_lesser then
      return left(p_from, i - 1) || substr(v_least, i);
    elsif v_char collate "C" < v_greater then
      v_next := left(p_from, i - 1) || v_greater || substr(v_least, i + 1);
      if v_char <> v_lesser then
        return v_next;
      end if;
    elsif v_char <> v_greater then
      return v_next;
    end if;
  end loop;
  if length(p_from) > length(p_folded) then
    return v_next;
  end if;
  return p_from || substr(v_least, length(p_from) + 1);
end $$;

-- How the beginnings of names are written that are `p_folded` but for the case. Each costs a seek or two.
create function storage.list_spellings(p_bucket_id text, p_folded text) returns setof text
language plpgsql stable rows 1
set plan_cache_mode = force_generic_plan
set enable_sort = off
as $$
declare
  v_from text := storage.next_spelling(p_folded, '');
  v_found text;
begin
  while v_from is not null loop
    select left(o.name, length(p_folded)) into v_found
    from storage.objects o
    where o.bucket_id = p_bucket_id and o.name collate "C" >= v_from
      and o.name collate "C" < p_folded || chr(1114111) collate "C"
    order by o.name collate "C"
    limit 1;
    exit when v_found is null;
    if lower(v_found) = p_folded then
      return next v_found;
      exit when v_found = '';
      v_found := v_found || chr(1114111);
    end if;
    v_from := storage.next_spelling(p_folded, v_found);
  end loop;
end $$;

-- List v1. `levels` is what earlier releases upstream needed; the prefix tells.
create function storage.search(
  prefix text, bucketname text, limits integer default 100, levels integer default 1, offsets integer default 0,
  search text default '', sortcolumn text default 'name', sortorder text default 'asc'
) returns table (
  name text, id uuid, updated_at timestamptz, created_at timestamptz, last_accessed_at timestamptz, metadata jsonb
)
language plpgsql stable as $$
declare
  v_start integer := length(coalesce(prefix, '')) + 1;
  v_folded text := lower(coalesce(prefix, '') || coalesce(search, ''));
  v_limit integer := least(coalesce(limits, 100), 1500);
  v_offset integer := greatest(coalesce(offsets, 0), 0);
  v_descends boolean := lower(sortorder) = 'desc';
  v_column text := lower(sortcolumn);
begin
  if v_column is null or v_column not in ('updated_at', 'created_at', 'last_accessed_at') then
    return query
      select substr(case when e.id is null then left(e.name, -1) else e.name end, v_start),
        e.id, e.updated_at, e.created_at, e.last_accessed_at, e.metadata
      from storage.list_entries(
        bucketname, v_folded, '/', true, v_folded, v_folded || chr(1114111), v_descends, v_offset, v_limit
      ) e;
    return;
  end if;
  -- Folders in front, and those that differ in case are several.
  return query execute format(
    $sql$
    with entries as (
      select e.*
      from storage.list_spellings($1, $2) as spelling
      cross join lateral storage.list_entries(
        $1, spelling, '/', false, spelling, spelling || chr(1114111), false, 0, 2147483647
      ) as e
    ), shown as (
      select distinct true as is_folder, substr(left(e.name, -1), $3) as name, e.id, e.updated_at, e.created_at,
        e.last_accessed_at, e.metadata
      from entries e where e.id is null
      union all
      select false, substr(e.name, $3), e.id, e.updated_at, e.created_at, e.last_accessed_at, e.metadata
      from entries e where e.id is not null
    )
    select s.name, s.id, s.updated_at, s.created_at, s.last_accessed_at, s.metadata
    from shown s
    order by s.is_folder desc, s.%1$I %2$s, s.name collate "C" %2$s
    limit $4 offset $5
    $sql$,
    v_column, case when v_descends then 'desc' else 'asc' end
  ) using bucketname, v_folded, v_start, v_limit, v_offset;
end $$;

-- List v2 with folders, by a date. A folder's is the creation of its oldest object, so that this reads all that lies
-- below the prefix. Pages go on behind a moment and a name, to the microsecond.
create function storage.search_by_timestamp(
  p_prefix text, p_bucket_id text, p_limit integer, p_level integer, p_start_after text, p_sort_order text,
  p_sort_column text, p_sort_column_after text
) returns table (
  key text, name text, id uuid, updated_at timestamptz, created_at timestamptz, last_accessed_at timestamptz,
  metadata jsonb
)
language plpgsql stable as $$
begin
  return query execute format(
    $sql$
    with found as (
      select o.name, o.id, o.updated_at, o.created_at, o.last_accessed_at, o.metadata,
        storage.get_common_prefix(o.name, $1, '/') as folder
      from storage.objects o
      where o.bucket_id = $2 and o.name collate "C" >= $1 and o.name collate "C" < $1 || chr(1114111) collate "C"
    ), entries as (
      select f.folder as name, null::uuid as id, min(f.created_at) as updated_at, min(f.created_at) as created_at,
        null::timestamptz as last_accessed_at, null::jsonb as metadata
      from found f where f.folder is not null group by f.folder
      union all
      select f.name, f.id, f.updated_at, f.created_at, f.last_accessed_at, f.metadata
      from found f where f.folder is null
    )
    select split_part(case when e.id is null then left(e.name, -1) else e.name end, '/', -1), e.*
    from entries e
    where $3 = '' or (coalesce(e.%1$I, 'epoch'), e.name collate "C")
      %2$s (coalesce(nullif($4, '')::timestamptz, 'epoch'), $3)
    order by coalesce(e.%1$I, 'epoch') %3$s, e.name collate "C" %3$s
    limit $5
    $sql$,
    case when lower(p_sort_column) = 'updated_at' then 'updated_at' else 'created_at' end,
    case when lower(p_sort_order) = 'desc' then '<' else '>' end,
    case when lower(p_sort_order) = 'desc' then 'desc' else 'asc' end
  ) using coalesce(p_prefix, ''), p_bucket_id, coalesce(p_start_after, ''), p_sort_column_after, p_limit;
end $$;

-- List v2 with folders. `levels` is what earlier releases upstream needed.
create function storage.search_v2(
  prefix text, bucket_name text, limits integer default 100, levels integer default 1, start_after text default '',
  sort_order text default 'asc', sort_column text default 'name', sort_column_after text default ''
) returns table (
  key text, name text, id uuid, updated_at timestamptz, created_at timestamptz, last_accessed_at timestamptz,
  metadata jsonb
)
language plpgsql stable as $$
declare
  v_limit integer := least(coalesce(limits, 100), 1500);
begin
  if lower(sort_column) in ('updated_at', 'created_at') then
    return query
      select * from storage.search_by_timestamp(
        prefix, bucket_name, v_limit, levels, start_after, sort_order, sort_column, sort_column_after
      );
  else
    return query
      select split_part(case when e.id is null then left(e.name, -1) else e.name end, '/', -1),
        e.name, e.id, e.updated_at, e.created_at, e.last_accessed_at, e.metadata
      from storage.list_objects_with_delimiter(bucket_name, prefix, '/', v_limit, '', start_after, sort_order) e;
  end if;
end $$;

-- Uploads that are not complete, and folders of them as rows without an id. The tokens are the last row of the page
-- before. Uploads in progress are few: this reads all below the prefix.
create function storage.list_multipart_uploads_with_delimiter(
  bucket_id text, prefix_param text, delimiter_param text, max_keys integer default 100,
  next_key_token text default '', next_upload_token text default ''
) returns table (key text, id text, created_at timestamptz)
language sql stable
begin atomic
  with found as (
    select u.key, u.id, u.created_at,
      storage.get_common_prefix(u.key, coalesce(prefix_param, ''), nullif(delimiter_param, '')) as folder
    from storage.s3_multipart_uploads u
    where u.bucket_id = list_multipart_uploads_with_delimiter.bucket_id
      and u.key >= coalesce(prefix_param, '') and u.key < coalesce(prefix_param, '') || chr(1114111)
  ), entries as (
    select distinct f.folder as key, null::text as id, null::timestamptz as created_at
    from found f where f.folder is not null
    union all
    select f.key, f.id, f.created_at from found f where f.folder is null
  )
  select e.key, e.id, e.created_at
  from entries e
  where coalesce(next_key_token, '') = ''
    or e.key collate "C" > next_key_token
    or (
      e.key = next_key_token and coalesce(next_upload_token, '') <> ''
      and (e.created_at, e.id collate "C") > (
        coalesce((select f.created_at from found f where f.id = next_upload_token), '-infinity'),
        next_upload_token
      )
    )
  order by e.key collate "C", e.created_at, e.id collate "C"
  limit max_keys;
end;

grant execute on function
  storage.get_common_prefix, storage.list_entries, storage.list_objects_with_delimiter, storage.next_spelling,
  storage.list_spellings, storage.search, storage.search_by_timestamp, storage.search_v2,
  storage.list_multipart_uploads_with_delimiter
to postgres, anon, authenticated, service_role;

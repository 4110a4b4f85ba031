-- Marketing content is saved by an upsert, which takes no filter: the version that it replaces travels as a column. A save
-- that names no version, or its own time, replaces whatever there is.
create function app_private.reject_older_version() returns trigger
language plpgsql set search_path = '' as $$
begin
  if new.updated_at < old.updated_at then
    raise exception using
      errcode = 'PT409',
      message = 'Another administrator has changed this since you opened it.',
      hint = 'Load the newer version, or save over it.';
  end if;
  return new;
end $$;
revoke execute on function app_private.reject_older_version() from public;
-- By its name, before set_updated_at.
create trigger reject_older_version before update on public.marketing_content
  for each row execute function app_private.reject_older_version();

-- Within a project file that runs as a superuser, the objects would belong to `postgres`, which is none afterwards.
do $$
begin
  perform pg_catalog.set_config('basalt.role', current_setting('role'), true);
  if (select oid from pg_catalog.pg_roles where rolname = current_user) <> 10 then
    perform pg_catalog.set_config('role', (select rolname from pg_catalog.pg_roles where oid = 10), true);
  end if;
end $$;


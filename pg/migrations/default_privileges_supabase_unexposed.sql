-- A Supabase project with `[api] auto_expose_new_tables = false`: tables grant nothing by themselves; functions stay
-- callable by all, as PostgreSQL has it.
do $$
declare
  owner name := basalt.project_owner();
begin
  execute format('alter default privileges for role %I grant execute on functions to public', owner);
  execute format('alter default privileges for role %I in schema public
    revoke all on tables from anon, authenticated, service_role', owner);
  execute format('alter default privileges for role %I in schema public
    revoke all on sequences from anon, authenticated, service_role', owner);
  execute format('alter default privileges for role %I in schema public
    revoke all on functions from anon, authenticated, service_role', owner);
end $$;

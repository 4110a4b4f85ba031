-- The Supabase layout: whatever a project file makes in `public` is open to the API roles, and row-level security is
-- what keeps rows apart. Old projects rely on it (supabase-projects.md section 1).
do $$
declare
  owner name := basalt.project_owner();
begin
  execute format('alter default privileges for role %I grant execute on functions to public', owner);
  execute format('alter default privileges for role %I in schema public
    grant all on tables to postgres, anon, authenticated, service_role', owner);
  execute format('alter default privileges for role %I in schema public
    grant all on sequences to postgres, anon, authenticated, service_role', owner);
  execute format('alter default privileges for role %I in schema public
    grant all on functions to postgres, anon, authenticated, service_role', owner);
end $$;

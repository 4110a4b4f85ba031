-- The Basalt layout: an object grants nothing by itself; `policies/` says who may do what. Run again when the layout
-- changes, so it also takes back what the other layout gave.
--
-- PUBLIC may execute every new function, and a default for one schema can only add to that: the revoke must be for the
-- role as a whole.
do $$
declare
  owner name := basalt.project_owner();
begin
  execute format('alter default privileges for role %I revoke execute on functions from public', owner);
  execute format('alter default privileges for role %I in schema public
    revoke all on tables from anon, authenticated, service_role', owner);
  execute format('alter default privileges for role %I in schema public
    revoke all on sequences from anon, authenticated, service_role', owner);
  execute format('alter default privileges for role %I in schema public
    revoke all on functions from anon, authenticated, service_role', owner);
end $$;

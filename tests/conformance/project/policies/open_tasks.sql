-- A view that checks the caller's own rights on tasks.
grant select on open_tasks to anon, authenticated, service_role;

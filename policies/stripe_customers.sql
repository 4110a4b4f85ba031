-- For the server only: no API role but service_role.
alter table public.stripe_customers enable row level security;
revoke all on public.stripe_customers from anon, authenticated, service_role;
grant all on public.stripe_customers to service_role;

-- Ours: the time step of the last accepted code of a TOTP factor, so that no code works twice (auth.md 3.15). Not in schema
-- auth, whose tables are API.

create table basalt.totp_steps (
  factor_id uuid primary key references auth.mfa_factors (id) on delete cascade,
  step bigint not null
);

grant select, insert, update, delete on basalt.totp_steps to supabase_auth_admin;

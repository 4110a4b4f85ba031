-- Recovery codes (auth.md 3.15): a factor of type recovery_code, and the hashes of its codes. The table is ours, and not in schema
-- auth, whose tables are API.

set local role supabase_auth_admin;

alter type auth.factor_type add value if not exists 'recovery_code';

set local role none;

create table basalt.recovery_codes (
  factor_id uuid not null references auth.mfa_factors (id) on delete cascade,
  code_hash text not null,
  used_at timestamptz,
  primary key (factor_id, code_hash)
);

grant select, insert, update, delete on basalt.recovery_codes to supabase_auth_admin;

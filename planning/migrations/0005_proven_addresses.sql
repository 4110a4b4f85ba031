-- Where sign-ups are confirmed without mail, confirmation proves nothing about an address; the identity's `email_verified` does
-- (decision 0055).

create function functions.has_proven_address(id uuid) returns boolean
language sql stable security definer set search_path = '' as $$
  select exists (
    select from auth.users u
    join auth.identities i on i.user_id = u.id
    where u.id = has_proven_address.id and u.email_confirmed_at is not null
      and lower(i.identity_data ->> 'email') = lower(u.email) and i.identity_data -> 'email_verified' = 'true'
  )
$$;
comment on function functions.has_proven_address(uuid) is 'Whether the account used a code or link that was mailed to its address, or an administrator vouched for it.';
revoke execute on function functions.has_proven_address(uuid) from public;
grant execute on function functions.has_proven_address(uuid) to service_role;

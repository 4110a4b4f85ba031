-- The card provider's customers whose user was deleted: jobs that end what still runs for them there (functions.md 5.26). The
-- app notes them in the transaction that deletes the user. A row that is done stays for a while: it explains late events.

create table functions.former_customers (
  customer text primary key,
  livemode boolean not null,
  outcome text,
  error_message text,
  attempts integer not null default 0,
  -- End of the lease, or time of the next attempt. Null: done, or given up.
  next_attempt_at timestamptz default now(),
  created_at timestamptz not null default now(),
  done_at timestamptz,
  constraint former_customers_customer_1_to_255 check (char_length(customer) between 1 and 255)
);
comment on table functions.former_customers is 'Customers at the card provider whose user was deleted. For the server only.';
create index former_customers_due on functions.former_customers (next_attempt_at) where done_at is null;
alter table functions.former_customers enable row level security;
grant select, insert, update, delete on functions.former_customers to service_role;

-- For the project's triggers: its owner gets no further rights here.
create function functions.note_former_customer(customer text, livemode boolean) returns void
language sql security definer set search_path = '' as $$
  insert into functions.former_customers (customer, livemode)
  values (note_former_customer.customer, note_former_customer.livemode)
  on conflict (customer) do update
  set attempts = 0, next_attempt_at = now(), done_at = null
$$;
comment on function functions.note_former_customer(text, boolean) is 'Has everything ended that runs for a customer.';
revoke execute on function functions.note_former_customer(text, boolean) from public;
grant usage on schema functions to postgres;
grant execute on function functions.note_former_customer(text, boolean) to postgres, service_role;

-- A deleted user pays no more. The rows of payments go with the account; what runs at the card provider is ended by the server,
-- after the commit.
create function app_private.note_former_customers() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform functions.note_former_customer(known.customer, known.livemode)
  from (
    select c.stripe_customer_id as customer, c.livemode from public.stripe_customers c where c.user_id = old.id
    union
    select s.stripe_customer_id, s.livemode from public.user_subscriptions s where s.user_id = old.id
  ) known
  where known.customer <> '';
  return case tg_op when 'DELETE' then old else new end;
end $$;

-- Before: the rows of payments are deleted along.
create trigger note_former_customers before delete on auth.users
  for each row execute function app_private.note_former_customers();
-- A deletion that keeps the row.
create trigger note_former_customers_of_kept_row after update of deleted_at on auth.users
  for each row when (old.deleted_at is null and new.deleted_at is not null)
  execute function app_private.note_former_customers();

-- Plans and their tasks are private to the plan's owner; categories are for everybody.
alter table categories enable row level security;
grant select on categories to authenticated, service_role;
drop policy if exists "everybody reads" on categories;
create policy "everybody reads" on categories for select to authenticated using (true);

alter table plans enable row level security;
grant select on plans to authenticated, service_role;
drop policy if exists "owners read" on plans;
create policy "owners read" on plans for select to authenticated using (owner_id = (select auth.uid()));

alter table tasks enable row level security;
grant select on tasks to authenticated, service_role;
drop policy if exists "owners of the plan read" on tasks;
create policy "owners of the plan read" on tasks for select to authenticated
  using (exists (select from plans where plans.id = tasks.plan_id and plans.owner_id = (select auth.uid())));

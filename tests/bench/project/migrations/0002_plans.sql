-- For embeds: 10 plans of each person, each in a category and with 10 tasks.
create table categories (id int primary key, name text not null);
insert into categories select n, 'Category ' || n from generate_series(1, 8) n;

create table plans (
  id bigint primary key,
  owner_id uuid not null,
  category_id int not null references categories,
  name text not null
);
insert into plans
select (person - 1) * 10 + n, ('00000000-0000-4000-8000-' || lpad(person::text, 12, '0'))::uuid, n % 8 + 1, 'Plan ' || n
from generate_series(1, 64) person, generate_series(1, 10) n;
create index plans_by_owner on plans (owner_id);

create table tasks (
  id bigint primary key,
  plan_id bigint not null references plans,
  title text not null,
  done boolean not null
);
insert into tasks select (plan - 1) * 10 + n, plan, 'Task ' || n, n % 2 = 0 from generate_series(1, 640) plan, generate_series(1, 10) n;
create index tasks_by_plan on tasks (plan_id);

analyze categories, plans, tasks;

-- What the endurance test reads and writes besides public.entries. Every answer is known beforehand.

create table public.owners (id int primary key, name text not null);
create table public.pets (
  id int primary key, owner_id int not null, name text not null, note text,
  constraint pets_owner foreign key (owner_id) references public.owners
);
insert into public.owners select n, 'owner ' || n from generate_series(1, 20) as n;
insert into public.pets select n, (n - 1) % 20 + 1, 'pet ' || n, 'note ' || n from generate_series(1, 60) as n;
create view public.current_pets with (security_invoker) as select id, name from public.pets;

create table public.batches (batch bigint, n int, primary key (batch, n));
create view public.batch_sizes with (security_invoker) as
  select batch, count(*) as size from public.batches group by batch;

create table public.counters (id int primary key, total bigint not null default 0);
insert into public.counters select generate_series(0, 7);
create function public.bump(counter int) returns bigint language sql volatile set search_path = ''
  as 'update public.counters set total = total + 1 where id = counter returning total';

create function public.steady(n int) returns int language sql stable set search_path = '' as 'select n * 2';

alter table public.owners enable row level security;
alter table public.pets enable row level security;
alter table public.batches enable row level security;
alter table public.counters enable row level security;
grant select on public.owners, public.pets, public.current_pets, public.batch_sizes to service_role;
grant select, insert on public.batches to service_role;
grant select, update on public.counters to service_role;
grant execute on function public.bump(int), public.steady(int) to service_role;

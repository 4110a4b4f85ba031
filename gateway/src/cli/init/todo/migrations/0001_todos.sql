-- A list for each person. Files can be attached; they are in the bucket `attachments`, in a folder named after the person's id.

create table public.todos (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null default auth.uid() references auth.users (id) on delete cascade,
  title text not null check (length(title) between 1 and 200),
  is_done boolean not null default false,
  attachment text,
  created_at timestamptz not null default now()
);
create index on public.todos (user_id, created_at);

insert into storage.buckets (id, name, file_size_limit) values ('attachments', 'attachments', 5242880);

-- Pages receive changes as they happen.
alter publication supabase_realtime add table public.todos;

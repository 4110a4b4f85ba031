-- One room. Everyone who has entered reads all messages; a message keeps the name that its author had.

create table public.messages (
  id bigint generated always as identity primary key,
  user_id uuid not null default auth.uid() references auth.users (id) on delete cascade,
  author text not null default coalesce(auth.jwt() -> 'user_metadata' ->> 'name', 'guest') check (length(author) between 1 and 40),
  body text not null check (length(body) between 1 and 2000),
  created_at timestamptz not null default now()
);

-- The policy for deletions looks messages up by their author.
create index on public.messages (user_id);

-- Pages receive changes as they happen.
alter publication supabase_realtime add table public.messages;

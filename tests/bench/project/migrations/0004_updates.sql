-- What realtime clients watch. Update i belongs to room i modulo the number of rooms, and whoever is a member of the room may see it.
create table updates (
  id bigint primary key,
  room_id int not null,
  title text not null,
  body text not null,
  made_at timestamptz not null default now()
);

create table room_members (
  room_id int not null,
  user_id uuid not null,
  primary key (room_id, user_id)
);

alter publication supabase_realtime add table updates;

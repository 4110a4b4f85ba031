-- Rooms are private to their members. The measurement switches the policy of `updates` off and on.
alter table updates enable row level security;
grant select on updates, room_members to authenticated;
alter table room_members enable row level security;
drop policy if exists "members see themselves" on room_members;
create policy "members see themselves" on room_members for select to authenticated using (user_id = (select auth.uid()));
drop policy if exists "members read" on updates;
create policy "members read" on updates for select to authenticated
  using (exists (select from room_members m where m.room_id = updates.room_id and m.user_id = (select auth.uid())));

-- The measurement also has this policy decide by a column, and by a function.
create or replace function is_room_member(room int) returns boolean language sql stable security definer set search_path = ''
  as $$ select exists (select from public.room_members m where m.room_id = room and m.user_id = (select auth.uid())) $$;
revoke execute on function is_room_member(int) from public;
grant execute on function is_room_member(int) to authenticated;

-- Rooms are private to their members. The measurement switches the policy of `updates` off and on.
alter table updates enable row level security;
grant select on updates, room_members to authenticated;
alter table room_members enable row level security;
drop policy if exists "members see themselves" on room_members;
create policy "members see themselves" on room_members for select to authenticated using (user_id = (select auth.uid()));
drop policy if exists "members read" on updates;
create policy "members read" on updates for select to authenticated
  using (exists (select from room_members m where m.room_id = updates.room_id and m.user_id = (select auth.uid())));

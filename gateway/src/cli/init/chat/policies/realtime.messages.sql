-- Who may join the private channel `room`, on which pages show who is present.

drop policy if exists "guests hear the room" on realtime.messages;
create policy "guests hear the room" on realtime.messages
  for select to authenticated
  using ((select realtime.topic()) = 'room');

drop policy if exists "guests are present in the room" on realtime.messages;
create policy "guests are present in the room" on realtime.messages
  for insert to authenticated
  with check ((select realtime.topic()) = 'room' and extension = 'presence');

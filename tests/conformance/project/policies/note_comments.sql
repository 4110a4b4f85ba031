-- Follow their note: who may see it may comment it. Visitors have no grant at all.
alter table note_comments enable row level security;
grant select, insert, update, delete on note_comments to authenticated, service_role;

drop policy if exists "readers of the note read and write" on note_comments;
create policy "readers of the note read and write" on note_comments for all to authenticated
  using (exists (select from notes where notes.id = note_comments.note_id))
  with check (exists (select from notes where notes.id = note_comments.note_id));

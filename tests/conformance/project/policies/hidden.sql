-- No grant and no policy: asked for all the same, to see the refusal.
alter table hidden enable row level security;

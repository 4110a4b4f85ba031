-- A bucket whose objects are listed. They have rows and no bytes.
insert into storage.buckets (id, name) values ('listed', 'listed');
insert into storage.objects (bucket_id, name, metadata, created_at)
select 'listed', name, jsonb_build_object('size', place, 'mimetype', 'text/plain'),
  timestamptz '2026-01-01 00:00:00.000001+00' + (place / 3) * interval '1 microsecond'
from unnest(array[
  'a.txt', 'B.txt', 'c_1.txt', 'cx1.txt', 'folder/a.txt', 'folder/sub/b.txt', 'Folder2/c.txt', 'pub/d.txt', 'zed.txt'
]) with ordinality as named (name, place);

"""Packs PostgreSQL for the executable: npm's programs, libraries and contrib, pgvector, and the client programs.

Arguments: npm's folder `native`, pgvector's folder, the clients' folder, the file to write. Prints the hash of the file.
"""

import hashlib
import io
import lzma
import pathlib
import sys
import tarfile

native, extensions, clients, target = map(pathlib.Path, sys.argv[1:])

# Needed to compile against PostgreSQL, or to embed SQL in C.
UNUSED = ("lib/pkgconfig/", "lib/postgresql/pgxs/", "lib/libecpg", "lib/libpgtypes")


def is_used(name: str, path: pathlib.Path) -> bool:
    is_development_link = path.is_symlink() and name.endswith(".so")
    return not (name.startswith(UNUSED) or name.endswith(".a") or is_development_link)


files = {}
for path in sorted(native.rglob("*")):
    name = path.relative_to(native).as_posix()
    if name.split("/")[0] in ("bin", "lib", "share") and not path.is_dir() and is_used(name, path):
        files[name] = path
# npm's copies of the libraries are those that the clients use.
for folder in (clients / "bin", clients / "lib"):
    for path in sorted(folder.iterdir()):
        files.setdefault(f"{folder.name}/{path.name}", path)
for path in sorted((extensions / "lib").iterdir()):
    files[f"lib/postgresql/{path.name}"] = path
for path in sorted((extensions / "extension").iterdir()):
    files[f"share/postgresql/extension/{path.name}"] = path

data = io.BytesIO()
# Neither times nor owners, so that the same files make the same archive.
with tarfile.open(fileobj=data, mode="w", format=tarfile.GNU_FORMAT) as archive:
    for name in sorted(files):
        path = files[name]
        entry = tarfile.TarInfo(name)
        if path.is_symlink():
            entry.type, entry.linkname = tarfile.SYMTYPE, str(path.readlink())
            archive.addfile(entry)
            continue
        content = path.read_bytes()
        entry.size = len(content)
        entry.mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
        archive.addfile(entry, io.BytesIO(content))

packed = lzma.compress(data.getvalue(), format=lzma.FORMAT_XZ, preset=9 | lzma.PRESET_EXTREME)
target.write_bytes(packed)
print(hashlib.sha256(packed).hexdigest())

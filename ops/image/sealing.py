"""Makes a layer of a folder: compiles its modules, and packs it. The image's own Python runs this file, and nothing of ours is imported, so
that neither the machine nor its Python changes a byte of the result.

    python sealing.py FOLDER TIME LAYER
"""

import gzip
import hashlib
import json
import py_compile
import shutil
import sys
import tarfile
from pathlib import Path
from typing import Final

# What somebody other than root owns, and folders that not everybody may read. All else is root's, and everybody may read it.
USER: Final = 10001
OWNED: Final = frozenset({"var/lib/postern", "backups"})
MODES: Final = {"var/lib/postern": 0o700, "backups": 0o700, "tmp": 0o1777, "var/tmp": 0o1777}


def compile_modules(folder: Path) -> None:
    """Python believes these files without a look at the source, whose time and size are none of the machine that runs the image."""
    # A link may lead out of the folder.
    for source in sorted(one for one in folder.rglob("*.py") if not one.is_symlink()):
        compiled = source.parent / "__pycache__" / f"{source.stem}.{sys.implementation.cache_tag}.pyc"
        name = f"/{source.relative_to(folder)}"
        py_compile.compile(str(source), str(compiled), name, doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)


def pack(folder: Path, time: int, target: Path) -> dict[str, str | int]:
    plain = target.with_suffix(".tar")
    with tarfile.open(plain, "w", format=tarfile.PAX_FORMAT) as layer:
        for path in sorted(folder.rglob("*")):
            add(layer, path, path.relative_to(folder).as_posix(), time)
    with plain.open("rb") as source, target.open("wb") as file, gzip.GzipFile("", "wb", 6, file, mtime=0) as compressing:
        shutil.copyfileobj(source, compressing)
    unpacked = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {"digest": digest(target), "diff_id": digest(plain), "size": target.stat().st_size, "unpacked": unpacked}


def digest(file: Path) -> str:
    with file.open("rb") as content:
        return f"sha256:{hashlib.file_digest(content, 'sha256').hexdigest()}"


def add(layer: tarfile.TarFile, path: Path, name: str, time: int) -> None:
    info = tarfile.TarInfo(name)
    info.mtime = time
    info.uid = info.gid = USER if name in OWNED else 0
    if path.is_symlink():
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, str(path.readlink()), 0o777
        layer.addfile(info)
    elif path.is_dir():
        info.type, info.mode = tarfile.DIRTYPE, MODES.get(name, 0o755)
        layer.addfile(info)
    else:
        found = path.stat()
        info.size, info.mode = found.st_size, 0o755 if found.st_mode & 0o100 else 0o644
        with path.open("rb") as content:
            layer.addfile(info, content)


if __name__ == "__main__":
    compile_modules(Path(sys.argv[1]))
    print(json.dumps(pack(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))))

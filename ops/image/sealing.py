"""Makes a layer of a folder: compiles its modules, and packs it. The image's own Python runs this file, and nothing of ours is imported, so
that neither the machine nor its Python changes a byte of the result.

    python sealing.py FOLDER TIME LAYER
"""

import gzip
import hashlib
import json
import py_compile
import sys
import tarfile
from pathlib import Path
from typing import IO, Final

# What somebody other than root owns, and folders that not everybody may read. All else is root's, and everybody may read it.
USER: Final = 10001
OWNED: Final = frozenset({"var/lib/postern", "backups"})
MODES: Final = {"var/lib/postern": 0o700, "backups": 0o700, "tmp": 0o1777, "var/tmp": 0o1777}


class Digesting:
    """Passes bytes on, and knows their digest and how many they were."""

    def __init__(self, target: IO[bytes]) -> None:
        self._target = target
        self._digest = hashlib.sha256()
        self.size = 0

    def write(self, content: bytes) -> int:
        self._digest.update(content)
        self.size += len(content)
        return self._target.write(content)

    def flush(self) -> None:
        self._target.flush()

    @property
    def digest(self) -> str:
        return f"sha256:{self._digest.hexdigest()}"


def compile_modules(folder: Path) -> None:
    """Python believes these files without a look at the source, whose time and size are none of the machine that runs the image."""
    # A link may lead out of the folder.
    for source in sorted(one for one in folder.rglob("*.py") if not one.is_symlink()):
        compiled = source.parent / "__pycache__" / f"{source.stem}.{sys.implementation.cache_tag}.pyc"
        name = f"/{source.relative_to(folder)}"
        py_compile.compile(str(source), str(compiled), name, doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)


def pack(folder: Path, time: int, target: Path) -> dict[str, str | int]:
    with target.open("wb") as file:
        packed = Digesting(file)
        with gzip.GzipFile("", "wb", 6, packed, mtime=0) as compressing:  # type: ignore[call-overload] - it writes and flushes, and no more
            plain = Digesting(compressing)
            with tarfile.open(fileobj=plain, mode="w|", format=tarfile.PAX_FORMAT) as layer:  # type: ignore[call-overload]
                for path in sorted(folder.rglob("*")):
                    add(layer, path, path.relative_to(folder).as_posix(), time)
    unpacked = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {"digest": packed.digest, "diff_id": plain.digest, "size": packed.size, "unpacked": unpacked}


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

"""Archives that are the same bytes for the same files, whoever made them, and when."""

import gzip
import io
import tarfile
from pathlib import Path


def archive(folder: Path, target: Path, *, root: str) -> None:
    """Packs the folder under the name `root`."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for file in sorted(file for file in folder.rglob("*") if file.is_file()):
            info = tarfile.TarInfo(f"{root}/{file.relative_to(folder).as_posix()}")
            info.size, info.mode = file.stat().st_size, 0o644
            with file.open("rb") as content:
                tar.addfile(info, content)
    target.write_bytes(gzip.compress(packed.getvalue(), mtime=0))

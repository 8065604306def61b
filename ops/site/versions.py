"""The site of all versions: a folder for each minor version, such as `0.2/`, the newest once more as `latest/`, and a list of them.

    python -m ops.site.versions FOLDER ARCHIVE…

unpacks the archives of releases, the newest patch of each minor version, and lays out the folder. It needs the standard library only.
"""

import argparse
import json
import re
import shutil
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

LATEST: Final = "latest"
# The pages of a numbered version have it, those of `latest` do not: a search engine finds each page once, and none of an old version.
NOINDEX: Final = '<meta name="robots" content="noindex">\n'
_FOLDER: Final = re.compile(r"\d+\.\d+")
_ARCHIVE: Final = re.compile(r"postern-(\d+\.\d+)\.(\d+)-site\.tar\.gz")
_LIST: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
{}<title>Documents of Postern</title>
<h1>Documents of Postern</h1>
<ul>
{}</ul>
"""


def minor(version: str) -> str:
    return version.rpartition(".")[0]


def lay_out(folder: Path) -> None:
    """Writes what stands around the versions. The folder has one at least."""
    versions = sorted((one.name for one in folder.iterdir() if _FOLDER.fullmatch(one.name)), key=_numbers, reverse=True)
    _copy_latest(folder / versions[0], folder / LATEST)
    listed = [{"name": name, "pages": _pages(folder / name)} for name in versions]
    (folder / "versions.js").write_text(f"globalThis.POSTERN_VERSIONS = {json.dumps(listed, separators=(',', ':'))}\n")
    folders = [(LATEST, f"Version {versions[0]}, the newest"), *((name, f"Version {name}") for name in versions[1:])]
    items = "".join(f'<li><a href="{name}/index.html">{told}</a></li>\n' for name, told in folders)
    (folder / "versions.html").write_text(_LIST.format("", items))
    (folder / "index.html").write_text(_LIST.format(f'<meta http-equiv="refresh" content="0; url={LATEST}/index.html">\n', items))


def unpack(archives: Iterable[Path], folder: Path) -> None:
    """Unpacks the newest patch of each minor version. Raises `ValueError` for an archive that is none of a release."""
    newest: dict[str, tuple[int, Path]] = {}
    for archive in archives:
        found = _ARCHIVE.fullmatch(archive.name)
        if found is None:
            raise ValueError(f"{archive.name} is no site of a release")
        newest[found[1]] = max(newest.get(found[1], (-1, archive)), (int(found[2]), archive))
    for name, (_, archive) in newest.items():
        with tarfile.open(archive) as packed:
            root = f"{archive.name.removesuffix('.tar.gz')}/{name}/"
            for member in packed.getmembers():
                if member.name.startswith(root):
                    member.name = f"{name}/{member.name.removeprefix(root)}"
                    packed.extract(member, folder, filter="data")


def _numbers(name: str) -> list[int]:
    return [int(one) for one in name.split(".")]


def _pages(folder: Path) -> list[str]:
    return sorted(file.relative_to(folder).with_suffix("").as_posix() for file in folder.rglob("*.html"))


def _copy_latest(newest: Path, latest: Path) -> None:
    shutil.rmtree(latest, ignore_errors=True)
    shutil.copytree(newest, latest)
    for page in latest.rglob("*.html"):
        page.write_text(page.read_text().replace(NOINDEX, "", 1))


def main() -> int:
    parser = argparse.ArgumentParser(description="Lay out the site of all versions")
    parser.add_argument("folder", type=Path)
    parser.add_argument("archives", type=Path, nargs="+")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    unpack(given.archives, given.folder)
    lay_out(given.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())

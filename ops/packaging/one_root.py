"""The build backend of the wheel. setuptools builds a wheel with the five folders of the repository's top level. This module puts them
under one import root, so that `core` becomes `postern.core`, and no other wheel's `core` meets ours (docs/decisions/0131). An editable
install has the folders as they are.
"""

import ast
import base64
import hashlib
import re
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    get_requires_for_build_editable,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
)

# No `prepare_metadata_for_build_wheel`: the metadata that setuptools would prepare names the entry point without the root. And no
# `build_sdist`: an archive of the source is a checkout of its tag.
__all__ = [
    "build_editable",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
]

ROOT: Final = "postern"
LAYERS: Final = ("core", "ports", "adapters", "actors", "entrypoints")
_INIT: Final = b'"""Self-hosted, multi-tenant single sign-on and identity platform. The command `postern` is the way in."""\n'
_NAME_OF_A_MODULE: Final = re.compile(rf"({'|'.join(LAYERS)})(\.[a-z_0-9]+)+\.?")
_BEFORE_THE_MODULE: Final = re.compile(rb"from\s+")
# The earliest date that a zip file can have. With it, two builds of the same commit are the same bytes.
_DATE: Final = (1980, 1, 1, 0, 0, 0)


class CannotMove(Exception):
    """The source names a module in a form that cannot be put under the root."""


def build_wheel(wheel_directory: str, config_settings: Mapping[str, object] | None = None, metadata_directory: str | None = None) -> str:
    # A folder of its own for each build: in `build/`, files that the source has lost would live on in the wheel.
    with tempfile.TemporaryDirectory(prefix="postern-build-") as folder:
        settings = {**(config_settings or {}), "--global-option": ["build", f"--build-base={folder}"]}
        name: str = build_meta.build_wheel(folder, settings, metadata_directory)
        with zipfile.ZipFile(Path(folder, name)) as built:
            files = {info.filename: built.read(info) for info in built.infolist() if not info.is_dir()}
    write_wheel(Path(wheel_directory, name), dict(moved(files)))
    return name


def moved(files: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """The files of a wheel, with the layers under the root."""
    yield f"{ROOT}/__init__.py", _INIT
    for name, content in files.items():
        path = Path(name)
        if path.parts[0] in LAYERS:
            yield f"{ROOT}/{name}", moved_source(content, name) if path.suffix == ".py" else content
        elif path.name == "entry_points.txt":
            yield name, re.sub(rb"(?m)= *(?=\w+\.)", f"= {ROOT}.".encode(), content)
        elif path.name == "top_level.txt":
            yield name, f"{ROOT}\n".encode()
        elif path.name != "RECORD":
            yield name, content


def moved_source(source: bytes, name: str) -> bytes:
    """The module with the root before each module of ours that it imports. Nothing else changes, and lines keep their numbers."""
    tree = ast.parse(source)
    lines = source.splitlines(keepends=True)
    # From the end, so that an earlier place on the same line stays where it is.
    for node in sorted(ast.walk(tree), key=_place, reverse=True):
        match node:
            case ast.ImportFrom(module=str(module), level=0) if _is_ours(module):
                _put_root(lines, node)
                node.module = f"{ROOT}.{module}"
            case ast.Import(names=names) if any(_is_ours(one.name) for one in names):
                raise CannotMove(f"{name}:{node.lineno}: write `from … import …`: the name that `import` binds would change")
            case ast.Constant(value=str(text)) if _NAME_OF_A_MODULE.fullmatch(text):
                raise CannotMove(f"{name}:{node.lineno}: write {text!r} with `__package__`: a string with a module's name does not move")
    result = b"".join(lines)
    if ast.dump(ast.parse(result)) != ast.dump(tree):
        raise CannotMove(f"{name}: an import is written in a form that is not understood")
    return result


def _place(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in LAYERS


def _put_root(lines: list[bytes], node: ast.ImportFrom) -> None:
    line = lines[node.lineno - 1]
    found = _BEFORE_THE_MODULE.match(line, node.col_offset)
    if found is not None:
        lines[node.lineno - 1] = line[: found.end()] + f"{ROOT}.".encode() + line[found.end() :]


def write_wheel(wheel: Path, files: dict[str, bytes]) -> None:
    """The record comes last, as installers expect."""
    (metadata,) = {name.partition("/")[0] for name in files if ".dist-info/" in name}
    record = f"{metadata}/RECORD"
    rows = [f"{name},sha256={_digest(content)},{len(content)}\n" for name, content in sorted(files.items())]
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in [*sorted(files.items()), (record, "".join([*rows, f"{record},,\n"]).encode())]:
            info = zipfile.ZipInfo(name, _DATE)
            info.external_attr = 0o100644 << 16
            archive.writestr(info, content, zipfile.ZIP_DEFLATED)


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()

"""Puts the clients together: what is written by hand, and what comes from the OpenAPI document."""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from ops.clients import in_python, in_typescript
from ops.clients.document import Description, description

ROOT: Final = Path(__file__).resolve().parent.parent.parent
HERE: Final = Path(__file__).parent
_FORMATTER: Final = "ruff"
_FORMAT: Final = ("-m", _FORMATTER, "format", "--isolated", "--quiet", "--line-length", "120", "--target-version", "py311")


class ToolMissing(Exception):
    """A tool that is not installed. The text says which."""


def write_clients(folder: Path, version: str) -> Sequence[Path]:
    """The same files for the same document and version, wherever they are written. If that fails, nothing is left of them."""
    if find_spec(_FORMATTER) is None:
        raise ToolMissing(f"{_FORMATTER} formats the client for Python, and is missing here: `make clients` installs it")
    described = description()
    try:
        return [write_python(folder / "python", described, version), write_typescript(folder / "typescript", described, version)]
    except BaseException:
        for language in ("python", "typescript"):
            shutil.rmtree(folder / language, ignore_errors=True)
        raise


def write_python(folder: Path, described: Description, version: str) -> Path:
    _begin(folder, "python")
    package = folder / in_python.PACKAGE
    _write(package, in_python.modules(described, version))
    subprocess.run([sys.executable, *_FORMAT, package], check=True)
    return folder


def write_typescript(folder: Path, described: Description, version: str) -> Path:
    _begin(folder, "typescript")
    manifest = folder / "package.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "version": version}, indent=2) + "\n")
    _write(folder / "src", in_typescript.modules(described, version))
    return folder


def _begin(folder: Path, language: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(HERE / language, folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "LICENSE", folder)


def _write(folder: Path, modules: Mapping[str, str]) -> None:
    for name, text in modules.items():
        (folder / name).write_text(text)

"""Whether the pictures of README.md and docs/console.md show pages as they are: `python -m ops.pictures`. `make pictures` takes them, and
writes beside them the digest of what pages are made of: templates, texts in English, styles and scripts.
"""

import hashlib
import json
import sys
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
PICTURES: Final = "docs/pictures"
MADE_OF: Final = f"{PICTURES}/made-of.txt"
OLD: Final = f"the pictures in {PICTURES} show pages as they no longer are: run make pictures, look at them, and commit them"
_PAGES: Final = ("entrypoints/http/console", "entrypoints/http/pages")
_DRAWN: Final = (".html", ".css", ".js", ".svg")
_WORDS: Final = ".toml"
_ENGLISH: Final = "adapters/texts/en.toml"


def made_of(tree: Path) -> str:
    """The digest of what pages are made of in this checkout."""
    files = [tree / _ENGLISH, *(one for folder in _PAGES for one in (tree / folder).rglob("*"))]
    digest = hashlib.sha256()
    for file in sorted(one for one in files if one.suffix in {*_DRAWN, _WORDS}):
        digest.update(f"{file.relative_to(tree).as_posix()}\0".encode())
        digest.update(file.read_bytes() if file.suffix in _DRAWN else _in_english(file))
    return digest.hexdigest()


def are_as_pages_are(tree: Path) -> bool:
    written = tree / MADE_OF
    return written.is_file() and written.read_text().strip() == made_of(tree)


def _in_english(file: Path) -> bytes:
    """Pictures show no other language. A file beside a page has a table for each."""
    texts = tomllib.loads(file.read_text())
    return json.dumps(texts.get("en", texts), sort_keys=True).encode()


def main() -> int:
    if are_as_pages_are(ROOT):
        return 0
    print(OLD[0].upper() + OLD[1:])
    return 1


if __name__ == "__main__":
    sys.exit(main())

"""Lists of hashes, as tests make them."""

import hashlib
from collections.abc import Iterable
from datetime import date
from pathlib import Path

from adapters.crypto.known_passwords.building import build_filter
from adapters.crypto.known_passwords.filters import FilterHead

DAY = date(2026, 5, 1)


def sha1(text: str) -> bytes:
    return hashlib.sha1(text.encode(), usedforsecurity=False).digest()


def listed(path: Path, texts: Iterable[str]) -> Path:
    path.write_text("".join(f"{sha1(text).hex().upper()}:3\r\n" for text in texts))
    return path


def built(path: Path, *texts: str) -> FilterHead:
    """A filter of these passwords."""
    return build_filter([listed(path.with_suffix(".list"), texts)], path, DAY, lambda _lines: None)

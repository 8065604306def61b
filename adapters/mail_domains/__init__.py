"""Disposable email domains: a file with one domain on each line. `#` begins a comment, and the line `# day: 2026-11-09` states how old the
list is.
"""

import re
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Final

from core.domain.identity.registering import listed_domain, with_parents

SHIPPED: Final = Path(__file__).with_name("throwaway_domains.txt")
# The largest public lists have some 4 MiB.
_LARGEST: Final = 16 << 20
_DAY: Final = re.compile(r"#\s*day:\s*(\S+)", re.IGNORECASE)


class ListUnusable(Exception):
    """The message completes the sentence "The file …"."""


class ListedThrowawayDomains:
    """Implements `ports.identity.accounts.ThrowawayDomains`. The list is one text in order, since a set of
    its domains would take ten times the memory, and a search takes some microseconds.
    """

    def __init__(self, path: Path = SHIPPED) -> None:
        """Raises `ListUnusable`."""
        try:
            found = path.stat()
        except OSError as error:
            raise ListUnusable(f"cannot be read: {error.strerror}") from None
        if found.st_size > _LARGEST:
            raise ListUnusable(f"has more than {_LARGEST >> 20} MiB")
        self.day, self.count, self._text = _read(path, found.st_mtime_ns, found.st_size)

    def knows(self, domain: str) -> bool:
        return any(self._has(one.encode()) for one in with_parents(domain))

    def _has(self, domain: bytes) -> bool:
        """Halves the text. A line begins after the last line break before the middle, or where the part begins."""
        low, high = 0, len(self._text)
        while low < high:
            start = max(self._text.rfind(b"\n", low, (low + high) // 2) + 1, low)
            end = self._text.index(b"\n", start)
            line = self._text[start:end]
            if line == domain:
                return True
            low, high = (end + 1, high) if line < domain else (low, start)
        return False


# Whoever opens Postern a second time in one process, as tests do, finds the file read.
@lru_cache(maxsize=1)
def _read(path: Path, _modified: int, _size: int) -> tuple[date | None, int, bytes]:
    """The day of the list, how many domains it has, and the text."""
    try:
        lines = path.read_bytes().decode("utf-8-sig").splitlines()
    except OSError as error:
        raise ListUnusable(f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ListUnusable("is no text in UTF-8") from None
    domains = sorted({domain for number, line in enumerate(lines, 1) if (domain := _domain(number, line))})
    if not domains:
        raise ListUnusable("names no domain")
    days = [_day(number, found[1]) for number, line in enumerate(lines, 1) if (found := _DAY.match(line))]
    return days[-1] if days else None, len(domains), "".join(f"{domain}\n" for domain in domains).encode()


def _day(number: int, said: str) -> date:
    try:
        return date.fromisoformat(said)
    except ValueError:
        raise ListUnusable(f"is no list of domains: line {number} has a day that is none, such as 2026-11-09") from None


def _domain(number: int, line: str) -> str:
    text = line.partition("#")[0].strip()
    domain = listed_domain(text)
    if text and not domain:
        raise ListUnusable(f"is no list of domains: line {number} is not a domain such as mail.example")
    return domain

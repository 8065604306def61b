"""Throw-away mail domains: a file with one domain on each line. `#` begins a comment, and the line `# day: 2026-11-09` says how old the
list is.
"""

import re
from datetime import date
from pathlib import Path
from typing import Final

from core.domain.identity.registering.registration_rules import listed_domain, with_parents

SHIPPED: Final = Path(__file__).with_name("throwaway_domains.txt")
# The largest public lists have some 4 MiB.
_LARGEST: Final = 16 << 20
_DAY: Final = re.compile(r"#\s*day:\s*(\S+)", re.IGNORECASE)


class ListUnusable(Exception):
    """The message completes the sentence "The file …"."""


class ListedThrowawayDomains:
    """Implements `ports.identity.registering.registration_rules.ThrowawayDomains`. The list is one text in order, since a set of
    its domains would take ten times the memory, and a search takes some microseconds.
    """

    def __init__(self, path: Path = SHIPPED) -> None:
        """Raises `ListUnusable`."""
        self.day: date | None = None
        self.count = 0
        self._text = self._read(path)

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

    def _read(self, path: Path) -> bytes:
        try:
            if path.stat().st_size > _LARGEST:
                raise ListUnusable(f"has more than {_LARGEST >> 20} MiB")
            lines = path.read_bytes().decode("utf-8-sig").splitlines()
        except OSError as error:
            raise ListUnusable(f"cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ListUnusable("is no text in UTF-8") from None
        domains = sorted({domain for number, line in enumerate(lines, 1) if (domain := self._domain(number, line))})
        if not domains:
            raise ListUnusable("names no domain")
        self.count = len(domains)
        return "".join(f"{domain}\n" for domain in domains).encode()

    def _domain(self, number: int, line: str) -> str:
        if day := _DAY.match(line):
            try:
                self.day = date.fromisoformat(day.group(1))
            except ValueError:
                raise ListUnusable(f"is no list of domains: line {number} has a day that is none, such as 2026-11-09") from None
        text = line.partition("#")[0].strip()
        domain = listed_domain(text)
        if text and not domain:
            raise ListUnusable(f"is no list of domains: line {number} is not a domain such as mail.example")
        return domain

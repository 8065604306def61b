"""What a check of a backup found: a line for each step, and an exit status for the first kind of damage."""

from collections.abc import Mapping
from typing import Final

from core.domain.backups import Damage, DamageKind
from entrypoints.cli.output.printing import print_json
from entrypoints.cli.output.progress import say
from entrypoints.failures import OK

STATUS: Final[Mapping[DamageKind, int]] = {
    DamageKind.MANIFEST: 10,
    DamageKind.DUMP: 11,
    DamageKind.KEYS: 12,
    DamageKind.SCHEMA: 13,
    DamageKind.ROWS: 14,
    DamageKind.TIES: 15,
    DamageKind.SEALED: 16,
    DamageKind.AUDIT: 17,
    DamageKind.SIGN_IN: 18,
}
# The most sentences of one kind that are printed. A longer list would not help the reader.
_MOST_SHOWN: Final = 20


class CheckReport:
    """Prints each line as it comes, unless `as_json`."""

    def __init__(self, backup: str, *, as_json: bool = False) -> None:
        self.damages: list[Damage] = []
        self._backup = backup
        self._as_json = as_json
        self._passed: list[tuple[DamageKind, str]] = []
        self._open: list[str] = []

    @property
    def proves_all(self) -> bool:
        return not self.damages and not self._open

    @property
    def status(self) -> int:
        return min((STATUS[damage.kind] for damage in self.damages), default=OK)

    def passed(self, kind: DamageKind, text: str) -> None:
        """Says what was looked at, unless damage of this kind was found."""
        if any(damage.kind is kind for damage in self.damages):
            return
        self._passed.append((kind, text))
        if not self._as_json:
            say(f"ok    {kind:<9} {text}")

    def leaves_open(self, question: str) -> None:
        """Says what this check does not prove. A database with open questions may be undamaged, and is not called proved."""
        self._open.append(question)

    def damaged(self, kind: DamageKind, sentence: str) -> None:
        self.add(Damage(kind, sentence))

    def add(self, damage: Damage) -> None:
        self.damages.append(damage)
        if self._as_json:
            return
        count = sum(1 for one in self.damages if one.kind is damage.kind)
        if count <= _MOST_SHOWN:
            say(f"FAIL  {damage.kind:<9} {damage.sentence}")
        elif count == _MOST_SHOWN + 1:
            say(f"FAIL  {damage.kind:<9} … and more")

    def end(self) -> None:
        count = len(self.damages)
        if self._as_json:
            told = {
                "backup": self._backup,
                "ok": not count,
                "proved": self.proves_all,
                "not_proved": self._open,
                "status": self.status,
                "passed": [{"check": kind.value, "text": text} for kind, text in self._passed],
                "damages": [{"check": damage.kind.value, "sentence": damage.sentence} for damage in self.damages],
            }
            print_json(told)
        elif count:
            print(f"{self._backup}: {count} {'fault' if count == 1 else 'faults'} found. Do not rely on it.")
        elif self._open:
            print(f"{self._backup}: no fault found. Not proved: {'; '.join(self._open)}.")
        else:
            print(f"{self._backup}: proved. It restores, has its contents, opens, verifies and signs in.")

"""Imports for tests: files, the use case on them, and what the database then has."""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from adapters.imports.files import ImportFiles, NotesOnDisk
from adapters.imports.sources import opened
from core.domain.platform.imports.decisions import ImportRules
from core.domain.platform.imports.reports import ReportLine, Tally
from core.domain.record.events import Actor
from core.frozen import Frozen, replace
from entrypoints.bootstrap import Postern
from ports.jobs import ignored

SAMPLES: Final = Path(__file__).parent / "samples"
TRUSTING: Final = ImportRules(trusts_verified=True)
SOURCE: Final = "https://old.example.org"


class Done(Frozen):
    tally: Tally
    lines: Sequence[ReportLine]

    @property
    def outcomes(self) -> Mapping[str, str]:
        """By the addresses."""
        return {one.email: one.outcome.value for one in self.lines}

    def notes(self, email: str) -> Sequence[str]:
        (line,) = [one for one in self.lines if one.email == email]
        return line.notes


async def imported(postern: Postern, kind: str, *files: Path, rules: ImportRules = TRUSTING, **asked: Any) -> Done:
    lines: list[ReportLine] = []
    async with opened(ImportFiles(kind=kind, files=files, **asked), ignored) as source:
        with closing(NotesOnDisk()) as notebook:
            tally = await postern.platform.imports.run(
                source, rules, Actor(operator="root"), tell=lines.extend, advance=ignored, notebook=notebook
            )
    return Done(tally, lines)


async def planned(postern: Postern, kind: str, *files: Path, rules: ImportRules = TRUSTING, **asked: Any) -> Done:
    return await imported(postern, kind, *files, rules=replace(rules, is_plan=True), **asked)


def people_file(path: Path, people: Iterable[Mapping[str, Any] | str], **beginning: Any) -> Path:
    """A file in our own form. A text is a line as it is."""
    first = json.dumps({"postern_people": 1, "source": SOURCE, **beginning})
    path.write_text("".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in (first, *people)))
    return path

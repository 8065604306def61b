"""The list of the cases that `make test` runs, `tests/chosen.txt`.

It has each file of tests with the digest of what was chosen from and the seconds that its chosen cases took, and below it the cases, one a
line. ` *` stands for all cases.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ops.near import ROOT, WALKS

# A test gives its runs another list.
LIST: Final = Path(os.environ.get("TESTS_CHOSEN", ROOT / "tests" / "chosen.txt"))
WHOLE: Final = ("tests/house/", *WALKS)
"""Of these every case is chosen: the rules of the house, and the walks over who may do what. A folder has a slash at its end."""
_ALL: Final = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    digest: str
    seconds: float
    cases: Sequence[str] | None
    """What follows the file and `::`. None stands for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    files: Mapping[str, Listed]
    chosen: int
    """How many cases these were, when they were chosen."""
    among: int

    @classmethod
    def read(cls) -> "Chosen":
        first, _, rest = (LIST.read_text() if LIST.exists() else "# 0 of 0 cases\n").partition("\n")
        _, chosen, _, among, *_ = first.split()
        files: dict[str, Listed] = {}
        for block in rest.removesuffix("\n").split("\n") if rest else []:
            if block.startswith(" "):
                file, before = next(reversed(files.items()))
                cases = None if block.strip() == _ALL else [*(before.cases or ()), block[1:]]
                files[file] = Listed(digest=before.digest, seconds=before.seconds, cases=cases)
            else:
                file, digest, seconds = block.split()
                files[file] = Listed(digest=digest, seconds=float(seconds), cases=[])
        return cls(files=files, chosen=int(chosen), among=int(among))

    def write(self) -> None:
        lines = [f"# {self.chosen} of {self.among} cases, chosen by a green `make check-all` (tests/runs/choosing.py)."]
        for file, listed in sorted(self.files.items()):
            lines.append(f"{file} {listed.digest} {listed.seconds:.1f}")
            lines += [f" {case}" for case in ([_ALL] if listed.cases is None else sorted(listed.cases))]
        LIST.write_text("\n".join(lines) + "\n")

    def gone(self, there: Collection[str], files: Collection[str]) -> Sequence[str]:
        """What is listed of these files, and is not among the cases that are there."""
        listed = [(file, one) for file, one in self.files.items() if file in files]
        return [case for file, one in listed for case in (f"{file}::{name}" for name in one.cases or ()) if case not in there]


def is_whole(file: str) -> bool:
    return any(file == one or (one.endswith("/") and file.startswith(one)) for one in WHOLE)

"""What the cases of a run reached: the functions of the product, and the branches of `core`, as sets of bits (`tests/runs/reached.py`).

A bit is a number that one worker gave to a name, so each worker has its list of names. A run writes all of it to `build/recorded.json.gz`:
some forty megabytes for thirty thousand cases, which are no part of the repository.
"""

import base64
import gzip
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import Final, TypeVar

from tests.places import ROOT

# A test gives its runs another file.
RECORDED: Final = Path(os.environ.get("TESTS_RECORDED", ROOT / "build" / "recorded.json.gz"))
OF_CHOSEN: Final = RECORDED.with_name("recorded-chosen.json.gz")
"""What a run of the chosen part reached. It is compared with the other."""
BRANCH: Final = ">"
"""Parts a branch's line and its number. No function has it in its name."""
_TO_TRUTH: Final = bytes.maketrans(b"01", b"\0\1")
Of = TypeVar("Of")


def bits(numbers: Iterable[int]) -> int:
    some = [*numbers]
    digits = bytearray(b"0") * (max(some, default=0) + 1)
    for number in some:
        digits[~number] = ord("1")
    return int(digits, 2)


def those(some: Sequence[Of], reached: int) -> Iterator[Of]:
    """Those of a list whose bits are set."""
    return compress(some, format(reached, "b")[::-1].encode().translate(_TO_TRUTH))


@dataclass(frozen=True, slots=True, kw_only=True)
class OfCase:
    seconds: float
    """Without what a fixture of a module or of a session took."""
    price: float
    """With the fixtures of the modules that it uses, as if it ran alone."""
    passed: bool
    reached: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OfWorker:
    names: Sequence[str]
    """By the numbers of the bits: `module:qualified name` of a function, `module:line>number` of a branch."""
    cases: Mapping[str, OfCase]
    files: Mapping[str, int]
    """What was reached while the cases of a file ran."""
    seconds: Mapping[str, float]
    """What fixtures of modules and of the session took, by the file in which they were made."""
    digests: Mapping[str, str]

    def written(self) -> str:
        said = {
            "names": self.names,
            "cases": {name: [one.seconds, one.price, one.passed, f"{one.reached:x}"] for name, one in self.cases.items()},
            "files": {file: f"{reached:x}" for file, reached in self.files.items()},
            "seconds": self.seconds,
            "digests": self.digests,
        }
        return base64.b64encode(zlib.compress(json.dumps(said).encode(), 1)).decode()

    @classmethod
    def read(cls, text: str) -> "OfWorker":
        said = json.loads(zlib.decompress(base64.b64decode(text)))
        cases = {
            name: OfCase(seconds=seconds, price=price, passed=passed, reached=int(reached, 16))
            for name, (seconds, price, passed, reached) in said["cases"].items()
        }
        return cls(**{**said, "cases": cases, "files": {file: int(reached, 16) for file, reached in said["files"].items()}})


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    workers: Sequence[OfWorker]
    whole: bool
    """Whether every test ran: each package, and no file was named."""
    green: bool

    def write(self, place: Path) -> None:
        place.parent.mkdir(exist_ok=True)
        said = {"whole": self.whole, "green": self.green, "workers": [one.written() for one in self.workers]}
        with gzip.open(place, "wt", compresslevel=1) as file:
            json.dump(said, file)

    @classmethod
    def read(cls, place: Path) -> "Recording":
        with gzip.open(place, "rt") as file:
            said = json.load(file)
        return cls(workers=[OfWorker.read(one) for one in said["workers"]], whole=said["whole"], green=said["green"])

    def numbered(self) -> tuple[Sequence[str], Mapping[str, OfCase]]:
        """All names, and all cases with the bits that these names have by their order."""
        numbers: dict[str, int] = {}
        cases: dict[str, OfCase] = {}
        for worker in self.workers:
            here = [numbers.setdefault(name, len(numbers)) for name in worker.names]
            for name, case in worker.cases.items():
                cases[name] = replace(case, reached=bits(those(here, case.reached)))
        return list(numbers), cases

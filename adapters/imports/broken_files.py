"""Files that are not whole, or of another kind. Nobody is imported from them."""

from pathlib import Path
from typing import Final

from adapters.imports.documents import BrokenDocument
from core.domain.errors import BadRequest
from core.domain.platform.imports.records import shown
from core.domain.platform.imports.tables import BEGINNING, named_kind


class BrokenFile(BadRequest):
    """The message names the file, the place of the fault, and the kind of the file, if the fault is in its beginning."""

    def __init__(self, path: Path, why: str, line: int, byte: int) -> None:
        self.file: Final = shown(path.name)
        self.line: Final = line
        self.byte: Final = byte
        super().__init__(f"{self.file}, line {line}, byte {byte}: {why}{_kind(path) if byte < BEGINNING else ''}. Nobody was imported")


def broken(path: Path, fault: BrokenDocument) -> BrokenFile:
    return BrokenFile(path, str(fault), fault.line, fault.byte)


def of_another_kind(path: Path, why: str) -> BadRequest:
    """The refusal of a file that can be read, and holds something else."""
    return BadRequest(f"{shown(path.name)}: {why}{_kind(path)}")


def _kind(path: Path) -> str:
    with path.open("rb") as file:
        kind = named_kind(file.read(BEGINNING))
    return f" (the file is {kind})" if kind else ""

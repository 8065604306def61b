"""Places of the product where one small change makes it wrong: a condition, a sign, a tenant, a commit."""

import ast
import random
import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from core.frozen import Frozen

ROOT: Final = Path(__file__).parents[2]
KEPT: Final = Path(__file__).parent / "kept.toml"
SEEN: Final = ROOT / "build" / "kept-seen.txt"
"""The cases that saw the kept mutations, one a line. `tests/runs/choosing.py` chooses them."""
# Where decisions stand. What draws pages, or wires things together, fails loudly or not at all.
_FOLDERS: Final = ("core/domain", "core/usecases", "adapters/postgres")
_TENANT: Final = r"(?: and (?:\w+\.)?org_id = %\(organization\)s)|(?:(?:\w+\.)?org_id = %\(organization\)s and )"
_COMMIT: Final = r"await uow\.commit\(\)"
_SIGNS: Final = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
}


class Mutation(Frozen, kw_only=True):
    file: str
    line: int
    """The first of the changed lines."""
    before: str
    after: str
    at: int
    """Where `before` begins in the file, in characters."""
    seen_by: Sequence[str] = ()
    """Files of tests that are to run first."""

    def __str__(self) -> str:
        before, after = (" ".join(text.split()) for text in (self.before, self.after))
        return f"{self.file}:{self.line}: {before} -> {after or 'nothing'}"

    def mutated(self) -> str:
        source = (ROOT / self.file).read_text(encoding="utf-8")
        assert source[self.at :].startswith(self.before), self  # noqa: S101 - the file was just read
        return source[: self.at] + self.after + source[self.at + len(self.before) :]


class Stale(Exception):
    """A kept mutation does not stand in its file as it is written down."""


def kept() -> Sequence[Mutation]:
    return [_written(**one) for one in tomllib.loads(KEPT.read_text(encoding="utf-8"))["mutation"]]


def drawn(seed: int, count: int) -> Sequence[Mutation]:
    """So many places, the same for the same seed and the same product."""
    files = sorted(file for folder in _FOLDERS for file in (ROOT / folder).rglob("*.py"))
    places = [place for file in files for place in places_of(file)]
    return random.Random(seed).sample(places, min(count, len(places)))


def _written(file: str, before: str, after: str, seen_by: Sequence[str] = ()) -> Mutation:
    source = (ROOT / file).read_text(encoding="utf-8")
    if before not in source:
        raise Stale(f"{file} has no {before!r} any more")
    at = source.index(before)
    return Mutation(file=file, line=source.count("\n", 0, at) + 1, before=before, after=after, at=at, seen_by=tuple(seen_by))


def places_of(path: Path) -> Iterator[Mutation]:
    source = path.read_text(encoding="utf-8")
    file = path.relative_to(ROOT).as_posix()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def mutation(before: str, after: str, at: int) -> Mutation:
        return Mutation(file=file, line=source.count("\n", 0, at) + 1, before=before, after=after, at=at)

    for pattern, instead in ((_TENANT, ""), (_COMMIT, "pass")):
        for found in re.finditer(pattern, source):
            yield mutation(found[0], instead, found.start())
    if not source.isascii():
        return  # the positions of the tree count bytes
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.If | ast.IfExp | ast.While) and not isinstance(node.test, ast.Compare):
            begin, end = _span(node.test, starts)
            yield mutation(source[begin:end], f"(not ({source[begin:end]}))", begin)
        elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _SIGNS:
            (begin, left), (right, end) = _span(node.left, starts), _span(node.comparators[0], starts)
            sign, other = _SIGNS[type(node.ops[0])]
            if source[left:right].strip() == sign:
                yield mutation(source[begin:end], f"{source[begin:left]} {other} {source[right:end]}", begin)


def _span(node: ast.expr, starts: Sequence[int]) -> tuple[int, int]:
    return starts[node.lineno - 1] + node.col_offset, starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)

"""`find` and `get` of ports are two words: `find` may find nothing, and says so by its type; `get` always gives something, or raises."""

import ast
from collections.abc import Iterator
from typing import Final

from tests.places import ROOT

# What may have nothing in it: none of them is None, and the reader of the answer asks it.
EMPTY: Final = {
    "ports.identity.sign_in.Attempts.find": "an Attempt knows whether there is an account",
    "ports.identity.accounts.FactLookup.find": "ServiceFacts may be none",
    "ports.identity.upstream.IdentityGrantStore.find": "GrantFound says what is missing",
    "ports.platform.UserDirectory.find": "FoundUsers is a page, which may be empty",
    "ports.record.Stories.find": "a Story may have no rows",
}
_MANY: Final = ("Sequence[", "Mapping[", "Collection[")


def ports() -> Iterator[tuple[str, str, str]]:
    """Each method of each port, with its place, its name and what it answers."""
    for file in sorted((ROOT / "ports").rglob("*.py")):
        where = ".".join(file.relative_to(ROOT).with_suffix("").parts)
        yield from methods(where, file.read_text(encoding="utf-8"))


def methods(where: str, text: str) -> Iterator[tuple[str, str, str]]:
    for node in (one for one in ast.parse(text).body if isinstance(one, ast.ClassDef)):
        for part in node.body:
            if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) and part.returns is not None:
                yield f"{where}.{node.name}.{part.name}", part.name, ast.unparse(part.returns)


def wrong(place: str, name: str, answer: str) -> str:
    """A sentence about a method with the wrong name. Empty if the name is right."""
    may_be_none, word = answer.endswith("| None"), name.partition("_")[0]
    if word == "get" and may_be_none:
        return f"{place} may answer None: call it find"
    if word == "find" and not may_be_none and not answer.startswith(_MANY) and place not in EMPTY:
        return f"{place} always answers a {answer}: call it get, or let it answer None, or say in EMPTY why not"
    return ""


def test_what_may_find_nothing_is_called_find_and_get_always_gives() -> None:
    assert list(filter(None, (wrong(*method) for method in ports()))) == []


def test_no_exception_is_stale() -> None:
    places = {place: answer for place, _, answer in ports()}
    assert [place for place in EMPTY if places.get(place, "None").endswith("None")] == []


def test_the_next_one_reads_what_to_do() -> None:
    made_up = """
class SirenStore(Protocol):
    async def get(self, siren: SirenId) -> Siren | None: ...
    async def find_loud(self) -> Siren: ...
    async def find_all(self) -> Sequence[Siren]: ...
    def get_loudest(self) -> Siren: ...
"""
    assert list(filter(None, (wrong(*method) for method in methods("ports.sirens", made_up)))) == [
        "ports.sirens.SirenStore.get may answer None: call it find",
        "ports.sirens.SirenStore.find_loud always answers a Siren: call it get, or let it answer None, or say in EMPTY why not",
    ]

"""The page that says what is per process and what is shared is true of the code, as far as the code can tell."""

import re
from pathlib import Path
from typing import Final

import pytest

from entrypoints import bootstrap
from entrypoints.settings import read
from tests.places import ROOT

PAGE: Final = ROOT / "docs" / "guides" / "running" / "what-is-shared.md"
KEYS: Final = "a:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


def rows_of_actors() -> list[tuple[list[str], str]]:
    """The names in the first column, and what the second one says."""
    table = PAGE.read_text().partition("## Actors")[2]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| `")]
    return [(re.findall(r"`(\w+)`", names), how) for names, how in rows]


async def test_every_actor_is_named_once() -> None:
    named = [name for names, _ in rows_of_actors() for name in names]
    settings = read({"POSTERN_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none", "POSTERN_ENCRYPTION_KEYS": KEYS})
    async with bootstrap.open_postern(settings) as one:
        assert sorted(named) == sorted(actor.name for actor in one.actors)


def test_whoever_works_alone_takes_a_turn_that_others_skip() -> None:
    (told,) = [how for _, how in rows_of_actors() if "One at a time" in how]
    adapters = ROOT / "adapters" / "postgres"
    code = (*adapters.rglob("*.py"), *adapters.rglob("*.sql"))
    takes_turns = {file.relative_to(ROOT).as_posix() for file in code if "pg_try_advisory_xact_lock" in file.read_text()}
    assert set(re.findall(r"`(adapters/[^`]+)`", told)) == takes_turns


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:adapters|actors|entrypoints|core)/[^`]+)`", PAGE.read_text()))))
def test_the_code_that_a_row_names_is_there(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize("page", sorted(PAGE.parent.glob("*.md")), ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", file.read_text(), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}, target

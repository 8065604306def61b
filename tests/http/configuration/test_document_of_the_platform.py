"""The document of a large installation: whole, byte for byte, in short steps, and by statements that do not name each organization."""

from typing import Any, Final

import msgspec
import pytest
import trio

from core.domain.errors import Forbidden, Refusal
from core.domain.lines import one_line
from entrypoints.bootstrap import Postern
from entrypoints.cli.configuration.operators import DocumentOperator
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.routes.configuration.exporting import encoded, exported
from tests.http.people import People
from tests.steps import MACHINE, watched_steps

_MANY: Final = 5_000
_TRIES: Final = 30
# In seconds of the thread that serves everybody.
_LONGEST: Final = 0.005


class _PlatformOwner(DocumentOperator):
    """Sees what a platform owner sees: tiers and limits, and what is the installation's own."""

    def __init__(self, postern: Postern) -> None:
        super().__init__(postern, {})

    async def may(self, endpoint: Endpoint, organization: str) -> Refusal | None:  # noqa: ARG002 - the same for all
        return None if endpoint.path.startswith("/api/platform/") else Forbidden("not of yours")


async def _exported(postern: Postern, *, are_all: bool = True) -> dict[str, Any]:
    slugs = await postern.platform.configurations.slugs()
    return await exported(_PlatformOwner(postern), slugs, with_platform=True, are_all=are_all)


@pytest.fixture
def many(people: People) -> People:
    people.change(
        "insert into all_organizations (id, slug, name, created_at, updated_at)"
        " select gen_random_uuid(), 'many-' || n, 'X', now(), now() from generate_series(1, %s) as n",
        _MANY,
    )
    return people


async def test_the_document_is_whole_and_byte_for_byte_what_is_read_by_slugs(postern: Postern, many: People) -> None:
    document = await _exported(postern)
    organizations = document["organizations"]
    assert list(organizations) == sorted(organizations)
    assert len(organizations) == len(many.rows("select from organizations")) >= _MANY
    assert organizations["many-7"].keys() == {"limits"}
    plain = msgspec.json.encode(document)
    assert msgspec.json.encode(await _exported(postern, are_all=False)) == plain
    assert msgspec.json.encode(await encoded(document)) == plain


async def test_an_organization_that_comes_meanwhile_is_in_no_document(postern: Postern, many: People) -> None:
    slugs = await postern.platform.configurations.slugs()
    many.change(
        "insert into all_organizations (id, slug, name, created_at, updated_at) values (gen_random_uuid(), 'late', 'X', now(), now())"
    )
    document = await exported(_PlatformOwner(postern), slugs, with_platform=True, are_all=True)
    assert "late" not in document["organizations"]
    assert len(document["organizations"]) == len(slugs)


async def test_no_step_takes_more_than_five_milliseconds(postern: Postern, many: People) -> None:
    assert len(many.rows("select from organizations")) >= _MANY
    longest = []
    MACHINE.slowness()
    for _ in range(_TRIES):
        slowness = MACHINE.slowness()
        with watched_steps() as steps:
            msgspec.json.encode(await encoded(await _exported(postern)))
            await trio.lowlevel.checkpoint()  # the end of the last step
        longest.append(max(steps) / min(slowness, MACHINE.slowness()))
        if longest[-1] < _LONGEST:
            break
        # A neighbor that takes the caches slows each try of a burst, so the tries are apart.
        await trio.sleep(0.1)
    assert min(longest) < _LONGEST


@pytest.mark.parametrize("text", ["", " ", "free", " two  words ", "~", "a\tb", "a\x00b", "a\x7fb", "é", "\u200d"])
def test_a_plain_text_is_the_line_that_a_look_at_each_letter_finds(text: str) -> None:
    # A letter that nobody sees, which is no ASCII, leads the long way and leaves nothing behind.
    assert one_line(text) == one_line(f"{text}\u202d")

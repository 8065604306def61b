"""What ends when (SECURITY 46): every kind of credential and grant with every cause, on real rows, against the table of the domain."""

from typing import Final

import pytest

from core.domain.identity.endings import ENDINGS, ENDS, TICKED, Cause, CredentialKind, Ending, Stays, _cells, unsaid
from tests.security.endings.causes import ACTS, TICKS, VOUCHED
from tests.security.endings.living import ONCE, OPENS, ROWS, differs, ids_of, opens, there
from tests.security.endings.world import FullAccount

# Whoever holds one may do more than Grace: `test_ways_back.py` walks them.
WAYS_BACK: Final = {CredentialKind.RULES_LINK, CredentialKind.INSTALLATION_RULES_LINK}


def walked(cause: Cause) -> list[tuple[CredentialKind, Ending]]:
    return [(kind, said) for kind, said in ENDINGS[cause].items() if kind not in WAYS_BACK]


def test_every_cell_is_said() -> None:
    assert list(unsaid()) == []


def test_no_cell_is_said_twice() -> None:
    """Otherwise the later word would silently count."""
    with pytest.raises(TypeError, match="password is said twice"):
        _cells((CredentialKind.PASSWORD,), ticked=(CredentialKind.PASSWORD,))


def test_every_cause_and_every_kind_is_walked() -> None:
    assert ACTS.keys() == set(Cause)
    assert {kind for cells in ENDINGS.values() for kind, said in cells.items() if said is TICKED} <= ROWS.keys()
    assert ROWS.keys() | OPENS.keys() == set(CredentialKind) - WAYS_BACK
    assert {cause for cause, cells in ENDINGS.items() if TICKED in cells.values()} == TICKS.keys()


@pytest.mark.parametrize(
    ("cause", "ticks"),
    [*((cause, False) for cause in Cause), *((cause, True) for cause in TICKS)],
    ids=lambda value: value.name.lower() if isinstance(value, Cause) else "ticks" if value else "",
)
async def test_what_ends_and_what_stays(world: FullAccount, cause: Cause, ticks: bool) -> None:
    await world.begin(proved=cause not in VOUCHED)
    ids = ids_of(world)
    # A password opens nothing before the first proof.
    before = {**await opens(world), **({CredentialKind.PASSWORD: True} if cause in VOUCHED else {})}
    assert [kind.name for kind, lives in [*there(world, ids).items(), *before.items()] if not lives] == []
    await (TICKS if ticks else ACTS)[cause](world)
    kept, opened = there(world, ids), {**await opens(world), **await opens(world, ONCE)}
    wrong = [
        f"{kind} by {cause.name} is said: {said}. Its row is there: {kept.get(kind)}. It opens something: {opened.get(kind)}"
        for kind, said in walked(cause)
        if differs(kind, said, kept, opened, ticks=ticks)
    ]
    assert wrong == [], "\n".join(wrong)
    # The walk sees a difference: the opposite of each cell would be found.
    for kind, said in walked(cause):
        ended = said is ENDS or (said is TICKED and not ticks)
        assert differs(kind, Stays("") if ended else ENDS, kept, opened), kind

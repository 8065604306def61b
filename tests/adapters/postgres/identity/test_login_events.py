"""Every statement that writes a sign-in writes the same rows."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

import adapters
import core
from core.domain.causes import caused_by
from core.domain.federation.saml.sign_in import PROVIDER
from core.domain.identifiers import DeviceId, LoginEventId
from core.domain.identity.login_events import LoginEvent, login_event, login_tried
from core.domain.record.events import Actor
from core.domain.services.services import SignInPolicy
from core.frozen import replace
from tests.adapters.postgres.conftest import Store
from tests.adapters.postgres.visits import ADA, BROWSER, IN_APP, WORLD, Case, arrange, enter, redeem
from tests.places import ROOT

SENDER: Final = Actor(address="192.0.2.1", user_agent="Browser")

# The functions that write a sign-in, each with the way to sign in that it records.
WAYS: Final[Mapping[Callable[[Store, Actor], Awaitable[bool]], str]] = {redeem: "session", enter: PROVIDER}

_LOGINS: Final = "select * from login_events order by created_at desc limit 1"
_EVENTS: Final = "select * from events order by occurred_at desc limit 1"
_DEVICE: Final = """
    insert into devices (id, user_id, name, device_type, last_used_at, created_at, updated_at)
    values (%(device)s, %(user)s, 'Laptop', 'desktop', now(), now(), now())
"""


async def _written(store: Store) -> tuple[dict[str, Any], dict[str, Any]]:
    """The rows of the latest sign-in, without values that always differ: ids, times and salts."""
    (login,), (event,) = await store.query(_LOGINS), await store.query(_EVENTS)
    assert event["details"].pop("login_event_id") == str(login.pop("id"))
    assert event.pop("occurred_at") is not None
    for row, own in ((login, ("created_at", "salt")), (event, ("id",))):
        for name in own:
            assert row.pop(name) is not None
    return login, event


async def _add(store: Store, made: LoginEvent) -> None:
    async with store.unit_of_work() as uow:
        await uow.login_events.add(made)
        await uow.record(login_tried(made, replace(SENDER, user=ADA)))
        await uow.commit()


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_a_statement_writes_what_the_domain_makes(store: Store, way: Callable[[Store, Actor], Awaitable[bool]]) -> None:
    device = DeviceId(store.ids.new())
    with psycopg.connect(store.url, autocommit=True) as connection:
        connection.execute(WORLD.encode())
        arrange(connection, Case(SignInPolicy.ANYONE, "own"))
    await store.query(_DEVICE, {"device": device, "user": ADA})
    await store.query("update sessions set device_id = %(device)s where id = %(session)s", {"device": device, "session": BROWSER})
    request = store.ids.new()
    with caused_by(request):
        assert await way(store, replace(SENDER, user=ADA))
    written = await _written(store)
    assert [row["request_id"] for row in written] == [request] * 2
    made = login_event(LoginEventId(store.ids.new()), SENDER, datetime.now(UTC), user=ADA, provider=WAYS[way], context=IN_APP)
    with caused_by(request):
        await _add(store, replace(made, device=device))
    assert written == await _written(store)
    assert (await store.count("login_events"), await store.count("events")) == (2, 2)


# What makes it, where that stands, and who names it without making it: the catalogue of events.
PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "user.login.success": (
        "core/domain/identity/login_events.py",
        "core/domain/record/event_types.py",
    ),
    " LoginEvent(": ("core/domain/identity/login_events.py",),
    "insert into login_events": ("adapters/postgres/identity/proofs/login_events.py",),
}


@pytest.mark.parametrize("made", PLACES)
def test_it_is_made_in_one_place(made: str) -> None:
    files = [file for layer in (core, adapters) for folder in layer.__path__ for file in Path(folder).rglob("*.py")]
    assert sorted(file.relative_to(ROOT).as_posix() for file in files if made in file.read_text()) == [*PLACES[made]]

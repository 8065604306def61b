"""Events and audit entries: written with their cause, for any text that people type."""

import ipaddress
from typing import Any

import pytest

from core.domain.formats import Json
from core.domain.identifiers import OrganizationId, UserId
from core.domain.record.events import SYSTEM, Actor, Event, Target
from tests.adapters.postgres.conftest import Store


async def record(store: Store, *events: Event) -> None:
    async with store.unit_of_work() as uow:
        for event in events:
            await uow.record(event)
        await uow.commit()


async def audited(store: Store) -> dict[str, Any]:
    (entry,) = await store.query("select * from audit_log")
    return entry


async def test_an_event_is_published_and_audited(store: Store) -> None:
    user, impersonator, organization = UserId(store.ids.new()), UserId(store.ids.new()), OrganizationId(store.ids.new())
    actor = Actor(user, impersonator, address="2001:db8::7", user_agent="Mozilla/5.0")
    details: dict[str, Json] = {"role": "admin", "seats": 5, "tags": ["a", None]}
    before = store.clock.now()
    await record(store, Event("user.role_updated", actor, Target("user", "42"), organization, details))

    (event,) = await store.query("select * from events")
    assert before <= event.pop("occurred_at") <= store.clock.now()
    assert event.pop("id").version == 7
    assert event == {
        "name": "user.role_updated",
        "organization_id": organization,
        "actor_id": user,
        "impersonator_id": impersonator,
        "target_type": "user",
        "target_id": "42",
        "details": details,
        "personal": None,
        "request_id": None,
    }
    entry = await audited(store)
    assert before <= entry.pop("created_at") <= store.clock.now()
    assert entry.pop("id").version == 7
    assert entry == {
        "action": "user.role_updated",
        "organization_id": organization,
        "actor_id": user,
        "impersonator_id": impersonator,
        "target_type": "user",
        "target_id": "42",
        "address": ipaddress.ip_address("2001:db8::7"),
        "user_agent": "Mozilla/5.0",
        "success": True,
        "details": details,
    }


async def test_what_the_system_does_has_no_actor(store: Store) -> None:
    await record(store, Event("invitation.expired", SYSTEM, Target("invitation", "1")))
    entry = await audited(store)
    assert [entry[column] for column in ("organization_id", "actor_id", "impersonator_id", "address", "user_agent")] == [None] * 5


async def test_an_event_may_be_only_published_or_only_audited(store: Store) -> None:
    await record(
        store,
        Event("user.login.success", SYSTEM, Target("user", "1")),
        Event("platform.owner.created", SYSTEM, Target("user", "1")),
        Event("security.password.changed", SYSTEM, Target("user", "1"), success=False),
    )
    assert await store.query("select name from events") == [{"name": "user.login.success"}]
    assert await store.query("select action, success from audit_log order by action") == [
        {"action": "platform.owner.created", "success": True},
        {"action": "security.password.changed", "success": False},
    ]


@pytest.mark.parametrize(
    ("typed", "stored"),
    [
        ("nul \0 in it", "nul \N{REPLACEMENT CHARACTER} in it"),
        ("half \ud83d of a pair", "half \N{REPLACEMENT CHARACTER} of a pair"),
        ("\N{RIGHT-TO-LEFT OVERRIDE}gpj.exe \N{GRINNING FACE}", "\N{RIGHT-TO-LEFT OVERRIDE}gpj.exe \N{GRINNING FACE}"),
        ("'; drop table users; --", "'; drop table users; --"),
        ("\\u0000", "\\u0000"),
    ],
)
async def test_hostile_text_is_recorded_and_harms_nothing(store: Store, typed: str, stored: str) -> None:
    actor = Actor(user_agent=typed)
    await record(store, Event("user.joined", actor, Target("user", typed), details={typed: [{"name": typed}]}))
    entry = await audited(store)
    assert (entry["user_agent"], entry["target_id"], entry["details"]) == (stored, stored, {stored: [{"name": stored}]})


async def test_a_number_that_json_does_not_know_is_recorded_as_text(store: Store) -> None:
    await record(store, Event("user.joined", SYSTEM, Target("user", "1"), details={"risk": float("nan"), "score": 0.5}))
    assert (await audited(store))["details"] == {"risk": "nan", "score": 0.5}


async def test_a_user_agent_is_kept_up_to_a_length(store: Store) -> None:
    await record(store, Event("user.joined", Actor(user_agent="x" * 100_000), Target("user", "1")))
    assert (await audited(store))["user_agent"] == "x" * 512


@pytest.mark.parametrize(("address", "stored"), [("unknown", None), ("", None), ("fe80::1%eth0", "fe80::1"), ("192.0.2.7", "192.0.2.7")])
async def test_an_address_is_recorded_if_it_is_one(store: Store, address: str, stored: str | None) -> None:
    await record(store, Event("user.joined", Actor(address=address), Target("user", "1")))
    assert (await audited(store))["address"] == (stored and ipaddress.ip_address(stored))

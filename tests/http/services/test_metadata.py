"""Metadata of organizations and services over HTTP: who keeps them, who reads them, and where they never stand."""

from itertools import count
from typing import Any, Final

import pytest

from core.domain.tenancy.roles import Capability
from tests.http.client import refused
from tests.http.people import Person
from tests.http.service_interface import Backend
from tests.http.services.governing import BAD_REQUEST, FORBIDDEN, SHOP, Government

ACME: Final = "/api/organizations/acme"
NUMBERS: Final = count()
MARK: Final = "kept-object"
KEPT: Final = {MARK: {"id": [1, None, True]}}
DEEP: Final[dict[str, Any]] = {"1": {"2": {"3": {"4": {"5": {}}}}}}


async def read(government: Government, path: str, by: Person | None = None) -> Any:
    return (await government.request("GET", path, by=by)).ok()["metadata"]


def bare(government: Government, *capabilities: Capability) -> Person:
    role = government.tenants.role(government.acme, f"role-{next(NUMBERS)}", capabilities)
    return government.tenants.member(government.acme, role)


@pytest.mark.parametrize("path", [ACME, SHOP])
async def test_those_who_manage_a_thing_keep_an_object_with_it(government: Government, path: str) -> None:
    assert await read(government, path) == {}
    changed = (await government.request("PATCH", path, {"metadata": KEPT})).ok()
    assert changed["metadata"] == await read(government, path) == KEPT
    # Another organization, and its service of the same kind, have nothing of it.
    boss = government.resident(government.globex, "owner")
    assert await read(government, "/api/organizations/globex", boss) == {}
    # The same again is no change; `true` is another value than 1.
    told = len(government.told())
    await government.request("PATCH", path, {"metadata": KEPT})
    assert len(government.told()) == told
    other = {MARK: {"id": [1, None, 1]}}
    assert (await government.request("PATCH", path, {"metadata": other})).ok()["metadata"] == other
    assert (await read(government, path))[MARK]["id"][2] is not True
    # A rename leaves them.
    assert (await government.request("PATCH", path, {"name": "Another"})).ok()["metadata"] == other
    assert (await government.request("PATCH", path, {"metadata": {}})).ok()["metadata"] == {}
    for events in (government.told(), government.told("audit_log")):
        assert [event["details"]["changed"] for event in events] == [["metadata"], ["metadata"], ["name"], ["metadata"]]
        assert MARK not in str(events)


@pytest.mark.parametrize("path", [ACME, SHOP])
@pytest.mark.parametrize("wrong", [{"a": "x" * 4096}, DEEP, None, [], "text", 1], ids=lambda one: str(one)[:20])
async def test_what_is_too_large_too_deep_or_no_object_is_refused(government: Government, path: str, wrong: Any) -> None:
    assert refused(await government.request("PATCH", path, {"metadata": wrong})) == BAD_REQUEST
    assert await read(government, path) == {}


async def test_an_organizations_change_says_something(government: Government) -> None:
    assert refused(await government.request("PATCH", ACME, {})) == BAD_REQUEST


async def test_a_new_service_begins_with_its_metadata(government: Government) -> None:
    new = {"slug": "new", "name": "New", "service_type": "web"}
    made = (await government.request("POST", f"{ACME}/services", {**new, "metadata": KEPT})).ok()
    assert made["service"]["metadata"] == await read(government, f"{ACME}/services/new") == KEPT
    wrong = await government.request("POST", f"{ACME}/services", {**new, "slug": "deep", "metadata": DEEP})
    assert refused(wrong) == BAD_REQUEST


async def test_others_see_null_and_write_nothing(government: Government) -> None:
    stranger = government.resident(government.globex, "owner")
    for path, needed in ((ACME, Capability.SETTINGS_MANAGE), (SHOP, Capability.SERVICES_MANAGE)):
        (await government.request("PATCH", path, {"metadata": KEPT})).ok()
        others = bare(government, *sorted(set(Capability) - {needed}))
        for person in (others, government.member):
            assert await read(government, path, person) is None
            assert refused(await government.request("PATCH", path, {"metadata": {}}, by=person)) == FORBIDDEN
        able = bare(government, needed, Capability.SERVICES_VIEW)
        assert await read(government, path, able) == KEPT
        for method, body in (("GET", None), ("PATCH", {"metadata": {}})):
            answer = await government.request(method, path, body, by=stranger)
            assert answer.status == 403
            assert MARK not in str(answer.body)


async def test_no_list_and_no_token_has_them(government: Government) -> None:
    for path in (ACME, SHOP):
        (await government.request("PATCH", path, {"metadata": KEPT})).ok()
    for path in ("/api/organizations", f"{ACME}/services", f"{ACME}/audit-log", "/api/user", f"{ACME}/members"):
        answer = await government.request("GET", path)
        assert answer.status == 200
        assert MARK not in str(answer.body)


async def test_a_services_key_reads_its_own_services_and_organizations(government: Government) -> None:
    for path in (ACME, SHOP):
        (await government.request("PATCH", path, {"metadata": {MARK: path}})).ok()
    ours, theirs = Backend(government, government.shop), Backend(government, government.theirs)
    for method, body in (("GET", None), ("PATCH", {"name": "Renamed"})):
        told = (await ours.ask(method, "/api/service/info", body)).ok()
        assert (told["metadata"], told["organization_metadata"]) == ({MARK: SHOP}, {MARK: ACME})
    assert (await ours.ask("PATCH", "/api/service/info", {"metadata": {}})).status == 400
    told = (await theirs.ask("GET", "/api/service/info")).ok()
    assert (told["metadata"], told["organization_metadata"]) == ({}, {})


async def test_those_who_manage_end_users_see_what_a_service_keeps_of_one(government: Government) -> None:
    path = f"{ACME}/users/{government.end_user.user}"
    government.people.change("update service_users set metadata = '{\"kept-object\": 1}' where user_id = %s", government.end_user.user)

    async def seen(by: Person | None = None) -> Any:
        (service,) = (await government.request("GET", path, by=by)).ok()["services"]
        return service["metadata"]

    assert await seen() == {MARK: 1}
    assert await seen(bare(government, Capability.END_USERS_VIEW)) is None
    assert MARK not in str((await government.request("GET", f"{ACME}/users")).body)

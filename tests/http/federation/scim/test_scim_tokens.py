"""SCIM tokens: made, listed, deleted; and the endpoints that they open."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import trio

from core.domain.rate_limits import RateLimit
from core.domain.tenancy.roles import BuiltInRole, Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery import callers
from tests.conftest import CapturedLog
from tests.http.client import Client, refused
from tests.http.federation.scim.directories import BASE, USER, USERS, Directory, refusal
from tests.http.people import People
from tests.patience import PATIENCE

TOKENS = "/api/organizations/acme/scim-tokens"


@pytest.fixture
async def directory(postern: Postern, client: Client, people: People) -> Directory:
    return await Directory(postern, client, people).connect()


async def test_a_token_is_shown_once_and_kept_as_a_digest(directory: Directory, log: CapturedLog) -> None:
    owner = await directory.people.token(directory.owner)
    until = datetime.now(UTC) + timedelta(days=1)
    created = (await directory.client.post(TOKENS, {"name": " Okta ", "expires_at": until.isoformat()}, token=owner)).ok()
    log.remember(created["token"])
    assert set(created) == {"id", "name", "token", "prefix", "created_at", "expires_at"}
    assert created["token"].startswith(f"{created['prefix']}_")
    assert created["prefix"].startswith("scim_live_")
    assert (created["name"], datetime.fromisoformat(created["expires_at"])) == ("Okta", until)
    listed = (await directory.client.get(TOKENS, token=owner)).ok()
    assert (listed["total"], [one["name"] for one in listed["tokens"]]) == (2, ["Okta", "Directory"])
    told = {"last_used_at": None, "created_by": str(directory.owner.user)}
    assert listed["tokens"][0] == {name: value for name, value in created.items() if name != "token"} | told
    rows = directory.people.rows("select scim_tokens::text as row from scim_tokens")
    assert created["token"] not in str(rows)
    assert (await directory.ask("GET", f"{BASE}/ServiceProviderConfig", token=created["token"])).status == 200


@pytest.mark.parametrize("body", [{}, {"name": " "}, {"name": "x" * 101}, {"name": "x", "expires_at": "2020-01-01T00:00:00Z"}, {"name": 5}])
async def test_a_token_that_is_not_one_is_refused(directory: Directory, body: Any) -> None:
    assert refused(await directory.client.post(TOKENS, body, token=await directory.people.token(directory.owner))) == (400, "BAD_REQUEST")


async def test_there_are_not_too_many(directory: Directory) -> None:
    directory.people.change(
        "insert into scim_tokens (id, org_id, name, prefix, digest, created_by, created_at) select gen_random_uuid(), %s, 'x', n::text,"
        " sha256(n::text::bytea), gen_random_uuid(), now() from generate_series(1, 49) as n",
        directory.tenant.id,
    )
    answer = await directory.client.post(TOKENS, {"name": "x"}, token=await directory.people.token(directory.owner))
    assert refused(answer) == (400, "BAD_REQUEST")


async def test_a_prefix_that_is_taken_is_drawn_again(directory: Directory, postern: Postern, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = postern.foundation.secrets
    (taken,) = directory.people.rows("select prefix from scim_tokens")
    drawn = iter([type(secrets.key("x"))(f"{taken['prefix']}_x"), secrets.key("scim_live")])
    monkeypatch.setattr(type(secrets), "key", lambda _self, _kind: next(drawn))
    created = (await directory.client.post(TOKENS, {"name": "x"}, token=await directory.people.token(directory.owner))).ok()
    assert created["prefix"] != taken["prefix"]


async def test_making_one_takes_the_right_to_manage_members(directory: Directory) -> None:
    role = directory.tenants.role(directory.tenant, "integrator", [Capability.INTEGRATIONS_MANAGE])
    person = directory.tenants.member(directory.tenant, role)
    token = await directory.people.token(person)
    assert refused(await directory.client.post(TOKENS, {"name": "x"}, token=token)) == (403, "FORBIDDEN")
    assert (await directory.client.get(TOKENS, token=token)).status == 200


async def test_making_one_takes_what_those_get_whom_it_brings(directory: Directory) -> None:
    views, manages = BuiltInRole.MEMBER.capabilities, Capability.MEMBERS_MANAGE
    for slug, more, status in (("blind", (), 403), ("seeing", views, 403), ("managing", [manages], 200), ("both", [manages, *views], 200)):
        role = directory.tenants.role(directory.tenant, slug, [Capability.INTEGRATIONS_MANAGE, *more])
        token = await directory.people.token(directory.tenants.member(directory.tenant, role))
        assert (await directory.client.post(TOKENS, {"name": slug}, token=token)).status == status
    for person in (directory.owner, directory.tenants.member(directory.tenant, "admin")):
        assert (await directory.client.post(TOKENS, {"name": "x"}, token=await directory.people.token(person))).status == 200


async def test_a_token_outlives_its_makers_membership_and_the_list_says_whose_it_is(directory: Directory) -> None:
    maker = directory.tenants.member(directory.tenant, "admin")
    made = (await directory.client.post(TOKENS, {"name": "x"}, token=await directory.people.token(maker))).ok()
    owner = await directory.people.token(directory.owner)
    assert (await directory.client.post(f"/api/organizations/acme/members/{maker.user}", token=owner)).status == 200
    assert (await directory.ask("GET", USERS, token=made["token"])).status == 200
    listed = (await directory.client.get(TOKENS, token=owner)).ok()["tokens"]
    assert [one["name"] for one in listed if one["created_by"] == str(maker.user)] == ["x"]


async def test_a_deleted_token_opens_nothing_from_the_next_request_on(directory: Directory) -> None:
    owner = await directory.people.token(directory.owner)
    (token,) = (await directory.client.get(TOKENS, token=owner)).ok()["tokens"]
    statuses: list[int] = []

    async def delete() -> None:
        statuses.append((await directory.client.request("DELETE", f"{TOKENS}/{token['id']}", token=owner)).status)

    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(delete)
    assert sorted(statuses) == [204] + [404] * 49
    assert refusal(await directory.ask("GET", USERS)) == (401, None)
    assert [entry["action"] for entry in directory.logged()] == ["scim_token.created", "scim_token.deleted"]


async def test_nor_does_an_expired_one_or_one_of_an_organization_that_is_not_active(directory: Directory) -> None:
    directory.people.change("update scim_tokens set expires_at = now()")
    assert refusal(await directory.ask("GET", USERS)) == (401, None)
    directory.people.change("update scim_tokens set expires_at = null")
    assert (await directory.ask("GET", USERS)).status == 200
    directory.people.change("update all_organizations set status = 'suspended'")
    assert refusal(await directory.ask("GET", USERS)) == (403, None)
    directory.people.change("update all_organizations set status = 'active', deleted_at = now()")
    assert refusal(await directory.ask("GET", USERS)) == (401, None)


@pytest.mark.parametrize(
    "token", ["", "x", "scim_live_", "scim_live_abcdef_0123", "scim_live_" + "x" * 300, "scim_live_\u00e9", "sk_abcdef_0"]
)
async def test_what_is_no_token_is_told_so_in_scims_words(directory: Directory, token: str) -> None:
    answer = await directory.client.get(USERS, headers=[("authorization", f"Bearer {token}")])
    assert refusal(answer) == (401, None)
    assert (answer.header("content-type"), answer.header("www-authenticate")) == ("application/scim+json", "Bearer")


async def test_it_opens_nothing_but_scim(directory: Directory) -> None:
    for path in ("/api/user", "/api/organizations/acme", TOKENS):
        assert (await directory.client.get(path, token=directory.token)).status == 401
    assert refusal(await directory.ask("GET", f"{BASE}/Nothing")) == (404, None)
    assert refusal(await directory.ask("PUT", USERS, {})) == (405, None)


async def test_what_it_does_stands_in_the_audit_log_under_its_name(directory: Directory) -> None:
    await directory.create("ada@example.org")
    log = await directory.client.get("/api/organizations/acme/audit-log", token=await directory.people.token(directory.owner))
    entry = next(one for one in log.ok()["logs"] if one["action"] == "user.joined")
    assert entry["actor"]["scim_token"]["name"] == "Directory"
    assert directory.token.startswith(entry["actor"]["scim_token"]["prefix"])
    assert "api_key" not in entry["actor"]


async def test_its_last_use_is_marked(directory: Directory, postern: Postern) -> None:
    await directory.ask("GET", USERS)
    async with trio.open_nursery() as nursery:
        await nursery.start(lambda task_status: postern.federation.scim_token_presence.run(task_status=task_status))
        with trio.fail_after(PATIENCE):
            while directory.people.rows("select from scim_tokens where last_used_at is not null") == []:
                await trio.sleep(0.05)
        nursery.cancel_scope.cancel()


async def test_one_token_cannot_take_all_of_the_process(directory: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callers, "SCIM", RateLimit("scim", burst=2, seconds_per_request=1000))
    path = f"{BASE}/ServiceProviderConfig"
    assert [(await directory.ask("GET", path)).status for _ in range(3)] == [200, 200, 429]
    first, directory.token = directory.token, (await directory.connect("Another")).token
    assert (await directory.ask("GET", path)).status == 200
    assert (await directory.ask("GET", path, token=first)).header("retry-after") is not None


@pytest.mark.parametrize("path", ["ServiceProviderConfig", "ResourceTypes", "ResourceTypes/User", "Schemas", f"Schemas/{USER}"])
async def test_discovery_says_what_is_offered(directory: Directory, path: str) -> None:
    answer = (await directory.ask("GET", f"{BASE}/{path}")).ok()
    assert answer["schemas"]
    if path == "ServiceProviderConfig":
        assert [answer[name]["supported"] for name in ("patch", "filter", "sort", "etag")] == [True] * 4
        assert [answer[name]["supported"] for name in ("bulk", "changePassword")] == [False] * 2
        assert answer["filter"]["maxResults"] == 1000
    if "/" not in path and path != "ServiceProviderConfig":
        assert answer["totalResults"] == len(answer["Resources"]) == 2
        assert refusal(await directory.ask("GET", f"{BASE}/{path}?filter=x")) == (403, None)
        assert refusal(await directory.ask("GET", f"{BASE}/{path}/nothing")) == (404, None)


async def test_bulk_is_not_offered(directory: Directory) -> None:
    assert refusal(await directory.ask("POST", f"{BASE}/Bulk", {"Operations": []})) == (501, None)

"""Deactivation, in each dialect: from the next request on, none of the person's credentials in the organization works."""

from collections.abc import Awaitable, Callable
from typing import Final
from uuid import UUID, uuid4

import pytest

from core.domain.secrets import Token
from entrypoints.bootstrap import Postern
from tests.http.client import Client, Received
from tests.http.federation.scim.directories import GROUP, USER, USERS, Directory
from tests.http.people import People, Person

ADA: Final = "ada@example.org"
INACTIVE: Final = {"op": "replace", "path": "active", "value": False}

Say = Callable[[Directory, str], Awaitable[Received]]
DIALECTS: Final[dict[str, Say]] = {
    "PATCH": lambda d, user: d.patch(user, INACTIVE),
    "PATCH, capitalised, as a text": lambda d, user: d.patch(user, {**INACTIVE, "op": "Replace", "value": "False"}),
    "PATCH, add": lambda d, user: d.patch(user, {**INACTIVE, "op": "add"}),
    "PATCH, without a path": lambda d, user: d.patch(user, {"op": "replace", "value": {"active": False}}),
    "PATCH, without a path, as a text": lambda d, user: d.patch(user, {"op": "Replace", "value": {"active": "false"}}),
    "PATCH, with the schema": lambda d, user: d.patch(user, {**INACTIVE, "path": f"{USER}:active"}),
    "PUT": lambda d, user: d.ask("PUT", f"{USERS}/{user}", {"schemas": [USER], "userName": ADA, "active": False}),
    "PUT, as a text": lambda d, user: d.ask("PUT", f"{USERS}/{user}", {"schemas": [USER], "userName": ADA, "active": "False"}),
    "DELETE": lambda d, user: d.ask("DELETE", f"{USERS}/{user}"),
    "group, by path": lambda d, user: d.patch(d.group, {"op": "remove", "path": f'members[value eq "{user}"]'}),
    "group, by value": lambda d, user: d.patch(d.group, {"op": "Remove", "path": "members", "value": [{"value": user}]}),
    "group, replaced": lambda d, _user: d.patch(d.group, {"op": "replace", "path": "members", "value": []}),
    "group, PUT": lambda d, _user: d.ask("PUT", d.group, {"schemas": [GROUP], "displayName": "Acme", "members": []}),
}


@pytest.fixture
async def directory(postern: Postern, client: Client, people: People) -> Directory:
    return await Directory(postern, client, people).connect()


@pytest.mark.parametrize("own", [True, False], ids=["its own account", "an account of others"])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_nothing_opens_anything_on_the_next_request(directory: Directory, client: Client, dialect: str, *, own: bool) -> None:
    people, tenants, acme = directory.people, directory.tenants, directory.tenant
    globex = tenants.add("globex")
    if not own:
        tenants.member(globex, email=ADA)
    user = (await directory.create(ADA))["id"]
    ada = Person(UUID(user), uuid4(), ADA)
    people.change("update users set email_verified_at = now() where id = %s", user)
    shop = tenants.service(acme, "shop")
    platform, inside, serviced = (tenants.session(ada, place) for place in (None, acme, shop))
    tokens = {
        "/api/organizations/acme/members": await tenants.token(platform),
        "/api/organizations/acme": await tenants.token(inside, acme),
        "/api/user": await tenants.token(serviced, shop),
    }
    refreshing = [Token(f"refresh-{session.session}") for session in (inside, serviced)]
    for token, session in zip(refreshing, (inside, serviced), strict=True):
        people.change("insert into refresh_tokens (digest, session_id, created_at) values (%s, %s, now())", token.digest(), session.session)
    invitation = uuid4()
    people.change(
        "insert into invitations (id, org_id, email, email_key, role, token_digest, expires_at, created_at)"
        " values (%s, %s, %s, %s, 'admin', %s, now() + interval '1 day', now())",
        *(invitation, acme.id, ADA, ADA, Token("invitation").digest()),
    )
    key = Token("sk_abcdef_0123456789")
    people.change(
        "insert into api_keys (id, service_id, name, prefix, digest, permissions, created_by, created_at)"
        " values (%s, %s, 'Key', 'sk_abcdef', %s, '{read:service}', %s, now())",
        *(uuid4(), shop.id, key.digest(), user),
    )
    tenants.assign(shop, user_id=user)
    for path, bearer in tokens.items():
        assert (await client.get(path, token=bearer)).status == 200, path

    assert (await DIALECTS[dialect](directory, user)).status in {200, 204}

    for path, bearer in tokens.items():
        assert (await client.get(path, token=bearer)).status in {401, 403}, path
    for token in refreshing:
        assert (await client.post("/api/auth/refresh", {"refresh_token": token.reveal()})).status == 401
    assert people.rows("select from relations where user_id = %s and organization_id = %s", user, acme.id) == []
    (invited,) = people.rows("select status from invitations where id = %s", invitation)
    assert invited["status"] == "cancelled"
    assert (await client.post("/api/invitations/accept", {"token": "invitation"})).status == 400
    # The service's key belongs to the service, and still works.
    assert (await client.get("/api/service/info", headers=[("x-api-key", key.reveal())])).status == 200
    # A person whose account others hold goes on elsewhere as before.
    assert (await client.get("/api/user", token=await tenants.token(platform))).status == (401 if own else 200)
    if not own:
        assert (await client.get("/api/organizations/globex", token=await tenants.token(platform))).status == 200
    told = [entry["action"] for entry in directory.logged()]
    assert (told.count("user.removed"), told.count("invitation.revoked")) == (1, 1)


async def test_who_is_deactivated_cannot_sign_in_until_activated(directory: Directory, client: Client) -> None:
    password = "correct horse battery"
    ada = await directory.people.with_password(password, ADA)
    directory.people.change("delete from users where id = %s", ada.user)
    user = (await directory.create(ADA))["id"]
    donor = await directory.people.with_password(password, "donor@example.org")
    directory.people.change(
        "update users set email_verified_at = now(), password_hash = (select password_hash from users where id = %s) where id = %s",
        *(donor.user, user),
    )
    login = {"email": ADA, "password": password}
    assert (await client.post("/api/auth/login", login)).status == 200
    await directory.patch(user, INACTIVE)
    assert (await client.post("/api/auth/login", login)).status == 401
    await directory.patch(user, {**INACTIVE, "value": True})
    assert (await client.post("/api/auth/login", login)).status == 200


async def test_a_session_that_ended_does_not_come_back_with_the_membership(directory: Directory, client: Client) -> None:
    directory.people.add(ADA)
    user = (await directory.create(ADA))["id"]
    session = directory.tenants.session(Person(UUID(user), uuid4(), ADA), directory.tenant)
    token = await directory.tenants.token(session, directory.tenant)
    assert (await client.get("/api/organizations/acme", token=token)).status == 200
    await directory.patch(user, INACTIVE)
    await directory.patch(user, {**INACTIVE, "value": True})
    assert (await client.get("/api/organizations/acme", token=token)).status == 401

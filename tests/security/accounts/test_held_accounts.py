"""Which ties of others keep a tenant from moving an account to another holder, from forgetting its person, and from ending its second
factor. The tests try every kind of tie against every caller. `test_whose_account.py` asks who blocks and deletes an account.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.federation.scim.directories import PATCH_OP, USERS, Directory
from tests.http.people import People, Person
from tests.http.service_interface import Backend
from tests.http.signing_in import PASSWORD, unlimited
from tests.http.subscribing import Market

database_url, postern, people = http.database_url, http.postern, http.people

ADA: Final = "ada@example.org"
MINE: Final = "mine@evil.example"

SERVICE, DIRECTORY, OWNER, MANAGER = "service", "directory", "owner", "manager"
EVERYBODY: Final = {SERVICE, DIRECTORY, OWNER, MANAGER}
ALL_BUT_THE_SERVICE: Final = EVERYBODY - {SERVICE}
NOBODY: Final[set[str]] = set()

_MEMBER: Final = """
    insert into memberships (id, org_id, user_id, role, created_at) values (gen_random_uuid(), %(globex)s, %(user)s, 'member', now())
"""
_PROVISIONED: Final = """
    insert into provisioned_users (org_id, user_id, is_member, is_deactivated, in_group, created_at, updated_at)
    values (%({place})s, %(user)s, {values}, now(), now()) on conflict do nothing
"""
_DEACTIVATED: Final = _PROVISIONED.format(place="globex", values="false, true, true")
_USER: Final = """
    insert into service_users (service_id, user_id, org_id, created_at, first_login_at)
    values (%({service})s, %(user)s, %({place})s, now(), {came})
"""
_ASKING: Final = """
    insert into join_requests (id, org_id, user_id, email, status, created_at)
    values (gen_random_uuid(), %(globex)s, %(user)s, 'ada@example.org', 'pending', now())
"""
_GOING: Final = "update all_organizations set deleted_at = now() where id = %(globex)s"

# Further ties, and the callers that may still decide about the account beside each tie.
TIES: Final[dict[str, tuple[tuple[str, ...], set[str]]]] = {
    "nothing": ((), EVERYBODY),
    "a sign-in that never worked": (("update users set password_hash = 'x' where id = %(user)s",), EVERYBODY),
    # A proved address holds the account for its owner.
    "an address that they have proved": (
        ("update users set password_hash = 'x', email_verified_at = now() where id = %(user)s",),
        {OWNER, MANAGER},
    ),
    "a member": ((_MEMBER,), NOBODY),
    "a member whom a directory knows": ((_MEMBER, _PROVISIONED.format(place="globex", values="true, false, true")), NOBODY),
    "deactivated by a directory": ((_DEACTIVATED,), NOBODY),
    "out of a directory's group": ((_PROVISIONED.format(place="globex", values="false, false, false"),), NOBODY),
    "removed for good": (("insert into former_members (org_id, user_id, removed_at) values (%(globex)s, %(user)s, now())",), EVERYBODY),
    "asking to be a member": ((_ASKING,), EVERYBODY),
    "a user of a service": ((_USER.format(service="theirs", place="globex", came="now()"),), NOBODY),
    # A service that added a person must not keep the organization's owner from forgetting the person. No other caller takes the user away.
    "added to a service": ((_USER.format(service="theirs", place="globex", came="null"),), {OWNER}),
    "an owner": (("update all_organizations set owner_user_id = %(user)s where id = %(globex)s",), NOBODY),
    "an owner of the platform": (("update users set is_platform_owner = true where id = %(user)s",), NOBODY),
    # An organization that is being deleted holds its accounts, but does not keep anybody from being forgotten.
    "a member of what is being deleted": ((_MEMBER, _GOING), {OWNER}),
    "deactivated in what is being deleted": ((_DEACTIVATED, _GOING), {OWNER}),
    "a user of a service that is being deleted": (
        (
            _USER.format(service="theirs", place="globex", came="now()"),
            "update all_services set deleted_at = now() where id = %(theirs)s",
        ),
        NOBODY,
    ),
    "a member here": ((_MEMBER.replace("globex", "acme") + " on conflict do nothing",), ALL_BUT_THE_SERVICE),
    "deactivated by the directory here": ((_PROVISIONED.format(place="acme", values="false, true, true"),), ALL_BUT_THE_SERVICE),
    "a user of another service here": ((_USER.format(service="app", place="acme", came="now()"),), ALL_BUT_THE_SERVICE),
}


class Holding(Market):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.owner = self.resident(self.acme, "owner")
        self.resident(self.globex, "owner")
        self.backend = Backend(self, self.shop)

    async def made(self, by: str) -> Person:
        """An account that was made through acme."""
        if by == SERVICE:
            return await self.backend.create(ADA)
        person = self.people.session_of(await self.people.with_password(PASSWORD, ADA, verified=False))
        self.tenants.join(person, self.acme)
        if by == DIRECTORY:
            self.people.change("update users set origin_org_id = %s where id = %s", self.acme.id, person.user)
            self.tie(person, _PROVISIONED.format(place="acme", values="true, false, true"))
        self.people.change("update memberships set came_by = 'created' where user_id = %s", person.user)
        return person

    def tie(self, person: Person, statement: str) -> None:
        values: dict[str, Any] = {"user": person.user, "globex": self.globex.id, "acme": self.acme.id}
        values |= {"theirs": self.theirs.id, "app": self.app.id}
        for name, value in values.items():
            statement = statement.replace(f"%({name})s", f"'{value}'::uuid")
        self.people.change(statement)

    async def by_directory(self, method: str, person: Person, *operations: dict[str, Any]) -> None:
        token = (await self.request("POST", "/api/organizations/acme/scim-tokens", {"name": "x"}, by=self.owner)).ok()["token"]
        body = {"schemas": [PATCH_OP], "Operations": operations} if operations else None
        await self.client.request(method, f"{USERS}/{person.user}", body=body, token=token)


@pytest.fixture
def holding(postern: Postern, people: People, log: CapturedLog) -> Holding:
    return Holding(postern, people, unlimited(postern), log)


async def a_service_moves(holding: Holding, person: Person) -> None:
    await holding.backend.move(person, MINE)


async def a_directory_moves(holding: Holding, person: Person) -> None:
    await holding.by_directory("PATCH", person, {"op": "replace", "path": "userName", "value": MINE})


async def an_owner_forgets(holding: Holding, person: Person) -> None:
    await holding.request("DELETE", f"/api/privacy/forget/{person.user}", by=holding.owner)


async def a_manager_disables_the_second_factor(holding: Holding, person: Person) -> None:
    path = f"/api/organizations/acme/members/{person.user}/mfa"
    await holding.request("DELETE", path, {"reason": "lost"}, by=holding.admin)


ACTS: Final[dict[Callable[[Holding, Person], Awaitable[None]], str]] = {
    a_service_moves: SERVICE,
    a_directory_moves: DIRECTORY,
    an_owner_forgets: OWNER,
    a_manager_disables_the_second_factor: MANAGER,
}
_FACTOR: Final = "insert into mfa_secrets (user_id, sealed_secret, enabled_at, created_at) values (%(user)s, 'x', now(), now())"
_KEPT: Final = """
    select email_key, password_hash, deactivated_at, anonymized_at, exists (select from mfa_secrets where user_id = users.id) as has_factor
      from users
     where id = %s
"""


@pytest.mark.parametrize("tie", TIES)
@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
async def test_an_account_is_a_tenants_only_while_nobody_else_has_anything_of_it(
    holding: Holding, act: Callable[[Holding, Person], Awaitable[None]], tie: str
) -> None:
    statements, allowed = TIES[tie]
    person = await holding.made(ACTS[act])
    holding.tie(person, _FACTOR)
    for statement in statements:
        holding.tie(person, statement)
    before = holding.people.rows(_KEPT, person.user)
    await act(holding, person)
    assert (holding.people.rows(_KEPT, person.user) != before) is (ACTS[act] in allowed)


async def test_somebody_on_leave_is_not_taken_over(holding: Holding) -> None:
    """A directory attaches, deactivates and brings back the same person."""
    ada = await holding.backend.create(ADA)
    holding.people.change("update users set email_verified_at = now() where id = %s", ada.user)
    theirs = await Directory(holding.postern, holding.client, holding.people, "initech").connect()
    assert (await theirs.create(ADA))["id"] == str(ada.user)
    # As if nobody had proved the address: a proved address would already hold the account.
    holding.people.change("update users set email_verified_at = null where id = %s", ada.user)
    for active in (False, True):
        (await theirs.patch(str(ada.user), {"op": "replace", "path": "active", "value": active})).ok()
        assert (await holding.backend.move(ada, MINE)).status == 403
        assert (await theirs.shown(ada.user))["userName"] == ADA
    # What others list ends with the account, which the service has made.
    (await theirs.patch(str(ada.user), {"op": "replace", "path": "active", "value": False})).ok()
    assert (await holding.backend.delete(ada)).status == 204
    assert (await theirs.get(ada.user)).status == 404
    assert [one["action"] for one in theirs.logged()][-1] == "user.removed"

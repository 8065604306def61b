"""An organization learns nothing by its log of sign-ins about people who have not come to it themselves. It could list anybody, lead their
address to its own application's sign-in, and try there.

The walk does the same acts as people of each kind, from the application's request on, and compares all that the organization can read.
"""

from collections.abc import Mapping
from typing import Any, Final

import pytest

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.browsing import Tab
from tests.http.client import Client
from tests.http.conftest import client, database_url, people, postern
from tests.http.federation.arriving import Arriving
from tests.http.people import People, Person
from tests.http.signing_in import PASSWORD, enable_mfa

__all__ = ["client", "database_url", "people", "postern"]

_SOMEBODY: Final = "somebody@example.org"
# What an organization can read of sign-ins: its log, its figures, its webhooks, and what it exports.
_READABLE: Final = {
    "log": "select provider, success, reason, user_id, service_id from login_events where organization_id = %s",
    "figures": "select provider, logins from login_counts where org_id = %s",
    "uncounted": "select provider, service_id from uncounted_logins where organization_id = %s",
    "webhooks": "select name, target_id, details from events where organization_id = %s and name like 'user.login%%'",
}
_KINDS: Final = ("nobody", "stranger", "listed", "others", "listed_elsewhere", "with_second_factor", "added_by_server", "member")


class Trying(Arriving):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.globex = self.tenants.add("globex")
        self.theirs = self.application(self.globex, "theirs", "https://theirs.example.com/callback")
        self.tenants.export_sign_ins(self.acme)

    async def somebody(self, kind: str) -> Person | None:
        if kind == "nobody":
            return None
        person = await self.people.with_password(PASSWORD, _SOMEBODY)
        match kind:
            case "listed" | "with_second_factor":
                self.tenants.join(person, self.acme, listed=True)
            case "others":
                self.tenants.join(person, self.globex)
                self.tenants.uses(person, self.theirs)
                self.people.change("update service_users set own_since = now(), first_login_at = now()")
            case "listed_elsewhere":
                self.tenants.join(person, self.globex, listed=True)
            case "added_by_server":
                self.tenants.uses(person, self.app)
                self.people.change("update service_users set own_since = null, first_login_at = null")
            case "member":
                self.tenants.join(person, self.acme)
        if kind == "with_second_factor":
            await enable_mfa(self.unlimited, self.people, person)
            self.people.change("delete from login_events")
        return person

    async def acts(self, person: Person | None) -> None:
        """A wrong password, the right one up to the question of the application, a wrong code, and a visit that is refused."""
        tab = await self._to_password()
        await tab.send(password="a wrong password")
        tab = await tab.send(password=PASSWORD)
        if "second-factor" in tab.place:
            await tab.send(code="000000")
        self.set(self.app, sign_in_policy="assigned")
        tab = await self._to_password()
        await tab.send(password=PASSWORD)
        if person is not None:
            await self.signed_in(self.people.session_of(person)).tab().open(self.asking())

    async def _to_password(self) -> Tab:
        return await (await self.browser().tab().open(self.asking())).send(email=_SOMEBODY)

    def readable(self) -> Mapping[str, Any]:
        read: dict[str, Any] = {name: self.people.rows(statement, self.acme.id) for name, statement in _READABLE.items()}
        return {**read, "exported": self.tenants.exported()}


@pytest.mark.parametrize("kind", _KINDS)
async def test_who_has_not_come_by_themselves_leaves_nothing_that_the_organization_can_read(
    kind: str, postern: Postern, people: People, client: Client, log: CapturedLog
) -> None:
    walk = Trying(postern, people, client, log)
    before = walk.readable()
    await walk.acts(await walk.somebody(kind))
    if kind != "member":
        assert walk.readable() == before
        return
    # The walk would see it: a member by their own act leaves each attempt, in order.
    seen = [row["reason"] for row in people.rows("select reason from login_events where organization_id = %s order by id", walk.acme.id)]
    assert seen == ["wrong_password", None, None, "no_role", "no_role"]
    assert len(walk.readable()["exported"]) == len(seen)
    # A refused visit is no failed sign-in.
    assert [row["name"] for row in walk.readable()["webhooks"]].count("user.login.failed") == 1


async def test_each_person_sees_all_of_it_in_their_own_log(postern: Postern, people: People, client: Client, log: CapturedLog) -> None:
    walk = Trying(postern, people, client, log)
    person = await walk.somebody("listed")
    await walk.acts(person)
    assert person is not None
    tab = await walk.signed_in(people.session_of(person)).tab().open("/ui/sign-ins")
    for said in ("Wrong password", "Denied: no role in the application"):
        assert said in tab.page.text, said

"""Organizations that keep in step with a directory, which stands in memory here: what it says is what a test has put there."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID

from core.domain.federation.directory_runs.runs import DirectoryStep
from core.domain.identity.upstream.ldap.answers import LdapFailed, LdapSite
from core.domain.identity.upstream.ldap.surveys import LdapGroup, LdapMarks, LdapPerson
from core.frozen import replace
from core.usecases.federation.directory_runs.keeping import DirectoryKeeping
from tests.http.client import Received
from tests.http.ldap.scene import PATH, LdapScene
from tests.http.people import Person

Item = TypeVar("Item")


def named(number: int, email: str | None = None, *, is_disabled: bool = False, **values: str) -> LdapPerson:
    """Person 7 has the identity 7, and person7@example.org."""
    address = f"person{number}@example.org" if email is None else email
    attributes = {"mail": address, "sn": f"Family{number}", **values}
    return LdapPerson(
        identity=str(UUID(int=number)).encode(),
        dn=f"uid=person{number},ou=people,dc=example,dc=org",
        is_disabled=is_disabled,
        values={name.lower(): (value,) for name, value in attributes.items() if value},
    )


def group(number: int, name: str, *members: int) -> LdapGroup:
    identities = frozenset(str(UUID(int=one)).encode() for one in members)
    return LdapGroup(identity=f"group {number}".encode(), dn=f"cn={name},dc=example,dc=org", name=name, members=identities, is_cut=False)


class _Pages(AsyncIterator[Sequence[Item]]):
    """Whoever stops early closes nothing, as with a real directory."""

    def __init__(self, items: Sequence[Item], directory: "MemoryDirectory") -> None:
        self._items = list(items)
        self._directory = directory
        self._at = 0

    async def __anext__(self) -> Sequence[Item]:
        directory = self._directory
        if self._at and directory.meanwhile is not None:
            await directory.meanwhile()
        if self._at >= len(self._items):
            if directory.fault is not None:
                raise directory.fault
            raise StopAsyncIteration
        page = self._items[self._at : self._at + directory.page]
        self._at += directory.page
        return page


@dataclass
class MemoryDirectory:
    """Implements `ports.identity.upstream.LdapReading`."""

    everybody: list[LdapPerson] = field(default_factory=list)
    changed: list[LdapPerson] = field(default_factory=list)
    listed_groups: list[LdapGroup] = field(default_factory=list)
    controller: str | None = "the first controller"
    modified: str | None = None
    fault: LdapFailed | None = None
    page: int = 2
    read: list[str] = field(default_factory=list)
    meanwhile: Any = None
    """Called after the first page."""

    async def marks(self, site: LdapSite) -> LdapMarks:
        del site
        return LdapMarks(self.controller, None if self.controller is None else 1, self.modified)

    def identities(self, site: LdapSite) -> AsyncIterator[Sequence[bytes]]:
        del site
        self.read.append("identities")
        return _Pages([one.identity for one in self.everybody], self)

    def people(self, site: LdapSite, attributes: Sequence[str], since: LdapMarks | None) -> AsyncIterator[Sequence[LdapPerson]]:
        del site, attributes
        self.read.append("people" if since is None else "changes")
        return _Pages(self.everybody if since is None else self.changed, self)

    async def groups(self, site: LdapSite) -> Sequence[LdapGroup]:
        del site
        self.read.append("groups")
        return self.listed_groups


@dataclass
class KeepingScene(LdapScene):
    memory: MemoryDirectory = field(default_factory=MemoryDirectory)
    scim_token: str = ""

    @property
    def keeping(self) -> DirectoryKeeping:
        kept = self.postern.federation.directory_keeping
        return replace(kept, reading=self.memory, teams=replace(kept.teams, reading=self.memory))

    async def in_step(self, **changes: Any) -> str:
        """A connection that keeps in step. Returns its id."""
        return await self.active(keeps_in_step=True, **changes)

    async def due(self) -> Sequence[DirectoryStep]:
        self.people.change("update directory_steps set next_at = now() - interval '1 second' where next_at is not null")
        return await self.keeping.claim_due(10)

    async def step(self, provider: str) -> dict[str, Any]:
        """What is due now. Returns the newest run."""
        for step in await self.due():
            await self.keeping.run(step)
        return await self.newest(provider)

    async def newest(self, provider: str) -> dict[str, Any]:
        run: dict[str, Any] = (await self.request("GET", f"{PATH}/{provider}/runs")).ok()["runs"][0]
        return run

    async def shown(self, provider: str, run: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = (await self.request("GET", f"{PATH}/{provider}/runs/{run['id']}")).ok()
        return found

    async def go_on(self, provider: str, run: Mapping[str, Any], digest: str | None = None, by: Person | None = None) -> Received:
        body = {"digest": digest or run["digest"]}
        return await self.request("POST", f"{PATH}/{provider}/runs/{run['id']}/go-on", body, by=by)

    async def leave_run(self, provider: str, run: Mapping[str, Any], by: Person | None = None) -> Received:
        return await self.request("POST", f"{PATH}/{provider}/runs/{run['id']}/leave", {}, by=by)

    async def begun(self, *people: LdapPerson, **changes: Any) -> str:
        """A connection whose first plan an owner has let go on, and that has been carried out."""
        self.memory.everybody = list(people)
        provider = await self.in_step(**changes)
        plan = await self.step(provider)
        (await self.go_on(provider, plan)).ok()
        assert (await self.step(provider))["state"] == "done"
        return provider

    def members(self) -> Mapping[str, Mapping[str, Any]]:
        rows = self.people.rows(
            "select email, role, came_by, own_since from memberships join users on users.id = user_id where org_id = %s", self.acme.id
        )
        return {row["email"]: row for row in rows}

    def audited_names(self) -> list[dict[str, Any]]:
        return self.people.rows("select action as name from audit_log order by id")

    async def scim(self, method: str, path: str, body: Any = None, token: str | None = None) -> Received:
        """A request of the organization's directory by SCIM."""
        kind = [("content-type", "application/scim+json")] if body is not None else []
        return await self.client.request(method, f"/scim/v2{path}", body=body, headers=kind, token=token or self.scim_token)

    async def with_scim(self) -> None:
        self.scim_token = str((await self.request("POST", "/api/organizations/acme/scim-tokens", {"name": "SCIM"})).ok()["token"])

    async def by_scim(self, email: str) -> str:
        body = {"schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"], "userName": email}
        return str((await self.scim("POST", "/Users", body)).ok(201)["id"])

    async def off_by_scim(self, user: object) -> Received:
        operation = {"op": "replace", "path": "active", "value": False}
        body = {"schemas": ["urn:ietf:params:scim:api:messages:2.0:PatchOp"], "Operations": [operation]}
        return await self.scim("PATCH", f"/Users/{user}", body)

    async def with_teams(self) -> None:
        (await self.request("PATCH", "/api/organizations/acme/scim/settings", {"groups": "teams"})).ok()

    def user(self, email: str) -> UUID:
        (row,) = self.people.rows("select id from users where email = %s", email)
        return UUID(str(row["id"]))

    def teams_of(self, slug: str) -> set[str]:
        rows = self.people.rows(
            "select users.email from team_members join teams on teams.id = team_id join users on users.id = user_id where slug = %s", slug
        )
        return {row["email"] for row in rows}

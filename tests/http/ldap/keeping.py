"""Organizations that keep in step with a directory, which stands in memory here: what it says is what a test has put there."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from core.domain.federation.directory_runs.runs import DirectoryStep
from core.domain.identity.upstream.ldap.answers import LdapSite
from core.domain.identity.upstream.ldap.failures import LdapFailed
from core.domain.identity.upstream.ldap.reading import LdapGroup, LdapMarks, LdapPerson
from core.frozen import replace
from core.usecases.federation.directory_runs.keeping import DirectoryKeeping
from tests.http.client import Received
from tests.http.ldap.scene import PATH, LdapScene
from tests.http.people import Person


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


@dataclass
class MemoryDirectory:
    """Implements `ports.identity.upstream.ldap_reading.LdapReading`."""

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

    async def identities(self, site: LdapSite) -> AsyncIterator[Sequence[bytes]]:
        del site
        self.read.append("identities")
        for at in range(0, len(self.everybody), self.page):
            yield [one.identity for one in self.everybody[at : at + self.page]]

    async def people(self, site: LdapSite, attributes: Sequence[str], since: LdapMarks | None) -> AsyncIterator[Sequence[LdapPerson]]:
        del site, attributes
        self.read.append("people" if since is None else "changes")
        people = self.everybody if since is None else self.changed
        for at in range(0, len(people), self.page):
            yield people[at : at + self.page]
            if self.meanwhile is not None:
                await self.meanwhile()
        if self.fault is not None:
            raise self.fault

    async def groups(self, site: LdapSite) -> Sequence[LdapGroup]:
        del site
        self.read.append("groups")
        return self.listed_groups


@dataclass
class KeepingScene(LdapScene):
    memory: MemoryDirectory = field(default_factory=MemoryDirectory)

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

"""An organization that invites people, with the rows and the mails of its invitations."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import trio

from tests.http.cast import Cast
from tests.http.client import Received
from tests.http.people import Person
from tests.http.postbox import Postbox, token_in
from tests.http.tenants import OwnRole, Tenant

ACCEPT, DECLINE, OWN = "/api/invitations/accept", "/api/invitations/decline", "/api/invitations"
Body = dict[str, Any]


class Inviting(Cast):
    """Acme with its owner, on the free tier, which allows a hundred members."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.postbox = Postbox(self.postern)
        self.acme = self.tenants.add("acme")
        self.ada = self.speaker = self.resident(self.acme, "owner", "ada")

    def path(self, of: Tenant | None = None) -> str:
        return f"/api/organizations/{(of or self.acme).slug}/invitations"

    async def ask(self, method: str, rest: str = "", body: Any = None, *, by: Person | None = None, of: Tenant | None = None) -> Received:
        return await self.request(method, self.path(of) + rest, body, by=by)

    async def invite(
        self, email: str = "bob@example.org", role: str = "member", *, by: Person | None = None, of: Tenant | None = None
    ) -> Body:
        issued = (await self.ask("POST", "", {"email": email, "role": role}, by=by, of=of)).ok()
        self.log.remember(issued["token"])
        return issued

    async def listing(self, query: str = "", *, of: Tenant | None = None) -> list[Body]:
        answer = await self.ask("GET", query, of=of)
        assert answer.status == 200, answer.body
        listed: list[Body] = answer.json()
        return listed

    async def accept(self, token: str) -> Received:
        return await self.client.post(ACCEPT, {"token": token})

    async def decline(self, token: str) -> Received:
        return await self.client.post(DECLINE, {"token": token})

    async def own(self, person: Person, **claims: Any) -> list[Body]:
        answer = await self.client.get(OWN, token=await self.people.token(person, **claims))
        assert answer.status == 200, answer.body
        listed: list[Body] = answer.json()
        return listed

    def verified(self, email: str) -> Person:
        person = self.people.add(email)
        self.people.change("update users set email_verified_at = now() where id = %s", person.user)
        return person

    def role(self, slug: str, *capabilities: Any, of: Tenant | None = None) -> OwnRole:
        return self.tenants.role(of or self.acme, slug, capabilities)

    def overdue(self, invitation: Body | None = None) -> None:
        """Lets the time of this invitation pass; of all invitations when none is named."""
        wanted = None if invitation is None else invitation["invitation"]["id"]
        self.people.change("update invitations set expires_at = now() - interval '1 second' where id = coalesce(%s, id)", wanted)

    def statuses(self) -> list[str]:
        return [row["status"] for row in self.people.rows("select status from invitations order by id")]

    def members(self, of: Tenant | None = None) -> dict[str, str]:
        """The members' roles by address. Checks that the kept number of members and the relations agree."""
        tenant = of or self.acme
        rows = self.people.rows(
            """
            select users.email, memberships.role,
                   array(
                       select case object_type when 'role' then relation || ' of ' || roles.slug else relation end
                         from relations
                         left join roles on roles.id = relations.object_id
                        where relations.user_id = users.id and relations.organization_id = memberships.org_id
                   ) as relations
              from memberships
              join users on users.id = memberships.user_id
             where memberships.org_id = %s
             order by memberships.created_at, memberships.id
            """,
            tenant.id,
        )
        (counted,) = self.people.rows("select member_count from all_organizations where id = %s", tenant.id)
        assert counted["member_count"] == len(rows)
        assert all(row["relations"] in ([row["role"]], [f"holder of {row['role']}"]) for row in rows), rows
        return {row["email"]: row["role"] for row in rows}

    def events(self) -> list[Body]:
        """The recorded events of organizations."""
        return self.people.rows(
            "select action, actor_id, impersonator_id, organization_id, target_type, target_id, details, success, host(address) as address"
            "  from audit_log where organization_id is not null order by id"
        )

    def happened(self) -> list[str]:
        return [event["action"] for event in self.events()]

    async def mailed(self) -> list[tuple[str, str]]:
        """The receivers of the mails, and the tokens of the links."""
        return [(mail.to, token_in(next(word for word in mail.text.split() if "?token=" in word))) for mail in await self.postbox.empty()]

    def trips(self) -> int:
        """The round trips of the last request."""
        trips: int = self.log.events("request")[-1]["db_round_trips"]
        return trips


async def at_once(callers: int, call: Callable[[int], Awaitable[Received]]) -> Sequence[Received]:
    """Runs these requests together, in one process."""
    answers: list[Received] = []
    begin = trio.Event()

    async def one(number: int) -> None:
        await begin.wait()
        answers.append(await call(number))

    async with trio.open_nursery() as nursery:
        for number in range(callers):
            nursery.start_soon(one, number)
        await trio.testing.wait_all_tasks_blocked()
        begin.set()
    return answers

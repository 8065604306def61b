"""An application of acme with a connection outwards, and the other system on loopback."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from core.domain.federation.provisioning.connections import token_context
from core.frozen import replace
from core.usecases.federation.provisioning.keeping import ProvisioningKeeping
from ops.stand_ins.fake_remote_system import FakeRemoteSystem
from tests.http.cast import Shops
from tests.http.people import Person
from tests.http.tenants import Tenant, UsedService

MAPPING = [
    {"attribute": "userName", "source": "address"},
    {"attribute": 'emails[type eq "work"].value', "source": "address"},
    {"attribute": "name.givenName", "source": "given_name"},
    {"attribute": "name.familyName", "source": "family_name"},
    {"attribute": "displayName", "source": "name"},
]


@dataclass
class ProvisioningScene(Shops):
    """The shop sends people to the remote system. Nothing goes before `active` and a step."""

    far: FakeRemoteSystem = field(kw_only=True)
    rests: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.boss = self.speaker = self.resident(self.acme, "owner", "boss")
        self.connection: UUID = UUID(int=0)

    @property
    def keeping(self) -> ProvisioningKeeping:
        return self.postern.federation.provisioning_keeping

    def active(self, *, service: UsedService | None = None, tenant: Tenant | None = None, agreed: bool = True, **columns: Any) -> UUID:
        """A connection that an owner has made active. `agreed`: its plan was let go on."""
        made = self.postern.foundation.ids.new()
        values: dict[str, Any] = {
            "id": made,
            "org_id": (tenant or self.acme).id,
            "service_id": (service or self.shop).id,
            "preset": "generic",
            "base_url": self.far.url,
            "sealed_token": self.people.sealed(self.far.token, token_context(made)),
            "mapping": Jsonb(MAPPING),
            "state": "active",
            "active_digest": b"settings",
            "agreed_digest": b"settings" if agreed else None,
            "agreed_run": self.postern.foundation.ids.new() if agreed else None,
            **columns,
        }
        names = ", ".join(values)
        places = ", ".join(["%s"] * len(values))
        self.people.change(
            f"insert into provisioning_connections ({names}, whole_due_at) values ({places}, now())",
            *values.values(),
        )
        self.connection = made
        return made

    def sealed_token(self, token: str) -> None:
        """The token of another system."""
        sealed = self.people.sealed(token, token_context(self.connection))
        self.people.change("update provisioning_connections set sealed_token = %s where id = %s", sealed, self.connection)

    def member(self, email: str, *, listed: bool = False, proved: bool = True, tenant: Tenant | None = None, **names: str) -> Person:
        person = self.people.proved(email) if proved else self.people.add(email)
        self.tenants.join(person, tenant or self.acme, listed=listed)
        for column, value in names.items():
            self.people.change(f"update users set {column} = %s where id = %s", value, person.user)
        return person

    def leaves(self, person: Person) -> None:
        self.people.change("delete from memberships where user_id = %s", person.user)
        self.people.change("delete from relations where user_id = %s", person.user)

    async def step(self, *, whole: bool = True) -> dict[str, Any]:
        """What is due now. Returns the newest run."""
        if whole:
            self.people.change("update provisioning_connections set whole_due_at = now() - interval '1 second'")
        self.people.change("update provisioning_connections set leased_until = null, again_at = null")
        for work in await self.keeping.claim_due(10):
            await self.keeping.run(work)
        return self.newest()

    async def changed(self) -> dict[str, Any]:
        """The marks are taken."""
        return await self.step(whole=False)

    def agree(self, run: dict[str, Any]) -> None:
        """An owner lets the run go on, as the store writes it."""
        self.people.change("update provisioning_runs set state = 'agreed' where id = %s", run["id"])
        self.people.change(
            "update provisioning_connections set agreed_run = %s, agreed_digest = active_digest, leased_until = null, again_at = null,"
            " whole_due_at = now() - interval '1 second'",
            run["id"],
        )

    def newest(self) -> dict[str, Any]:
        rows = self.people.rows("select * from provisioning_runs order by id desc limit 1")
        return rows[0] if rows else {}

    def named(self, run: dict[str, Any]) -> Sequence[tuple[str, str | None, str | None]]:
        """Whom the run names: what, why, and the address."""
        rows = self.people.rows(
            "select what, why, email from provisioning_run_people left join users on users.id = user_id where run_id = %s order by place",
            run["id"],
        )
        return [(row["what"], row["why"], row["email"]) for row in rows]

    def there(self) -> dict[str, dict[str, Any]]:
        """What we have kept, by address."""
        rows = self.people.rows("select users.email, provisioned_people.* from provisioned_people join users on users.id = user_id")
        return {row["email"]: row for row in rows}

    def counts(self, run: dict[str, Any]) -> dict[str, int]:
        names = ("made", "matched", "changed", "overwritten", "ended", "left_out", "unchanged", "held_back")
        return {name: run[name] for name in names if run[name]}

    def impatient(self) -> ProvisioningKeeping:
        """Rests take no time, and are noted."""

        class _Pace:
            def __init__(self, pace: Any, rests: list[float]) -> None:
                self.turn, self.breathe, self.together = pace.turn, pace.breathe, pace.together
                self.rests = rests

            async def rest(self, seconds: float) -> None:
                self.rests.append(seconds)

        return replace(self.keeping, pace=_Pace(self.keeping.pace, self.rests))

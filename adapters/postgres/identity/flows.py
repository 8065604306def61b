"""Flows in PostgreSQL: begun, signed in by, and completed, each once."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from adapters.postgres.driver.pool import Pool
from adapters.postgres.identity.upstream.sign_in import OWN, OwnRow
from adapters.postgres.rows import IdRow
from adapters.postgres.statements import ask
from adapters.postgres.storable import storable, storable_text
from adapters.postgres.transaction import Transaction
from core.domain.branding import POSTERN, branding
from core.domain.identifiers import FlowId, PreauthenticationId, ServiceId, SessionId, UserId
from core.domain.identity.flows import Flow, FlowPurpose, Prompt, Wanted
from core.domain.json import Json


@dataclass(frozen=True, slots=True)
class FlowRow:
    purpose: str
    service_id: UUID | None
    request: Mapping[str, Json]
    wanted: Mapping[str, Any]
    email: str
    user_id: UUID | None
    preauthentication_id: UUID | None
    session_id: UUID | None
    proof_digest: bytes | None
    created_at: datetime
    expires_at: datetime
    signed_in_at: datetime | None
    completed_at: datetime | None
    name: str | None
    logo_digest: str | None
    primary_color: str | None
    has_authenticator: bool
    has_passkey: bool
    own_clients: list[str] | None
    own_providers: list[list[str]] | None

    def flow(self, id: FlowId) -> Flow:  # noqa: A002 - the noun's own word
        return Flow(
            id,
            FlowPurpose(self.purpose),
            self.request,
            _wanted(self.wanted),
            self.created_at,
            self.expires_at,
            service=None if self.service_id is None else ServiceId(self.service_id),
            email=self.email,
            user=None if self.user_id is None else UserId(self.user_id),
            preauthentication=None if self.preauthentication_id is None else PreauthenticationId(self.preauthentication_id),
            session=None if self.session_id is None else SessionId(self.session_id),
            signed_in_at=self.signed_in_at,
            proof_digest=self.proof_digest,
            completed_at=self.completed_at,
            branding=POSTERN if self.name is None else branding(self.name, self.logo_digest, self.primary_color),
            has_authenticator=self.has_authenticator,
            has_passkey=self.has_passkey,
            own=OwnRow(own_clients=self.own_clients, own_providers=self.own_providers).own(),
        )


def _wanted(kept: Mapping[str, Any]) -> Wanted:
    return Wanted(
        login_hint=kept["login_hint"],
        prompt=None if kept["prompt"] is None else Prompt(kept["prompt"]),
        max_age=kept["max_age"],
        second_factor=kept["second_factor"],
        ui_locales=tuple(kept["ui_locales"]),
        organization=kept["organization"],
        service_name=kept["service_name"],
        service_slug=kept["service_slug"],
    )


def _kept(wanted: Wanted) -> Mapping[str, Json]:
    return {
        "login_hint": wanted.login_hint,
        "prompt": None if wanted.prompt is None else wanted.prompt.value,
        "max_age": wanted.max_age,
        "second_factor": wanted.second_factor,
        "ui_locales": list(wanted.ui_locales),
        "organization": wanted.organization,
        "service_name": wanted.service_name,
        "service_slug": wanted.service_slug,
    }


class PostgresFlows:
    """Implements `ports.identity.flows.FlowLookup`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def find(self, flow: FlowId, browser_digest: bytes) -> Flow | None:
        rows = await ask(self._pool, FlowRow, _FIND, {"id": flow, "browser_digest": browser_digest})
        return rows[0].flow(flow) if rows else None


class FlowRows:
    """Implements `ports.identity.flows.FlowStore` in one transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def add(self, flow: Flow, browser_digest: bytes) -> None:
        await self._transaction.tell(
            _ADD,
            {
                "id": flow.id,
                "browser_digest": browser_digest,
                "purpose": flow.purpose.value,
                "service": flow.service,
                "request": Jsonb(storable(flow.request)),
                "wanted": Jsonb(storable(_kept(flow.wanted))),
                "email": storable_text(flow.email),
                "created_at": flow.created_at,
                "expires_at": flow.expires_at,
            },
        )

    async def name(self, flow: FlowId, email: str) -> None:
        await self._transaction.tell(_NAME, {"id": flow, "email": storable_text(email)})

    async def await_second_factor(self, flow: FlowId, user: UserId, preauthentication: PreauthenticationId) -> None:
        await self._transaction.tell(_AWAIT_SECOND_FACTOR, {"id": flow, "user": user, "preauthentication": preauthentication})

    async def sign_in(self, flow: FlowId, user: UserId, proof_digest: bytes, at: datetime) -> bool:
        parameters = {"id": flow, "user": user, "proof_digest": proof_digest, "at": at}
        return bool(await self._transaction.ask(IdRow, _SIGN_IN, parameters))

    async def keep(self, flow: FlowId, session: SessionId) -> None:
        await self._transaction.tell(_KEEP, {"id": flow, "session": session})

    async def demand_sign_in(self, flow: FlowId, user: UserId, proof_digest: bytes, session: SessionId, at: datetime) -> None:
        parameters = {"id": flow, "user": user, "proof_digest": proof_digest, "session": session, "at": at}
        await self._transaction.demand_along(_SIGN_IN_TO, parameters)

    async def complete(self, flow: FlowId, at: datetime) -> bool:
        return bool(await self._transaction.ask(IdRow, _COMPLETE, {"id": flow, "at": at}))


FIND_FLOW: Final[LiteralString] = f"""
    select flows.purpose, flows.service_id, flows.request, flows.wanted, flows.email, flows.user_id, flows.preauthentication_id,
           flows.session_id, flows.proof_digest, flows.created_at, flows.expires_at, flows.signed_in_at, flows.completed_at,
           organizations.name, organizations.logo_digest, organizations.primary_color,
           flows.preauthentication_id is null or exists (
               select from mfa_secrets where mfa_secrets.user_id = flows.user_id and mfa_secrets.enabled_at is not null
           ) as has_authenticator,
           flows.preauthentication_id is not null and exists (
               select from passkeys where passkeys.user_id = flows.user_id
           ) as has_passkey,
           {OWN}
      from flows
      left join organizations on organizations.slug = flows.wanted ->> 'organization' and organizations.status = 'active'
"""

_FIND: Final[LiteralString] = f"""
    {FIND_FLOW}
     where flows.id = %(id)s and flows.browser_digest = %(browser_digest)s and flows.expires_at > now()
"""

_ADD: Final = """
    insert into flows (id, browser_digest, purpose, service_id, request, wanted, email, created_at, expires_at)
    values (%(id)s, %(browser_digest)s, %(purpose)s, %(service)s, %(request)s, %(wanted)s, %(email)s, %(created_at)s, %(expires_at)s)
"""

_NAME: Final = """
    update flows set email = %(email)s, user_id = null, preauthentication_id = null where id = %(id)s and signed_in_at is null
"""

_AWAIT_SECOND_FACTOR: Final = """
    update flows set user_id = %(user)s, preauthentication_id = %(preauthentication)s where id = %(id)s and signed_in_at is null
"""

_SIGN_IN: Final = """
    update flows
       set user_id = %(user)s, proof_digest = %(proof_digest)s, signed_in_at = %(at)s
     where id = %(id)s and signed_in_at is null and expires_at > %(at)s
 returning id
"""

# The session may be made by the same statement.
_SIGN_IN_TO: Final = """
    update flows
       set user_id = %(user)s, proof_digest = %(proof_digest)s, signed_in_at = %(at)s, session_id = %(session)s
     where id = %(id)s and signed_in_at is null and expires_at > %(at)s
 returning id
"""

_KEEP: Final = "update flows set session_id = %(session)s where id = %(id)s"

_COMPLETE: Final = """
    update flows set completed_at = %(at)s where id = %(id)s and completed_at is null and expires_at > %(at)s returning id
"""

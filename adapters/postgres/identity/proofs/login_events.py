"""Login events in PostgreSQL: sign-ins add them, and each person reads their own."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, LiteralString

from psycopg.types.json import Jsonb

from adapters.postgres.arrays import array_of_texts
from adapters.postgres.columns import Columns
from adapters.postgres.record.events import PUBLISHED
from adapters.postgres.storable import storable, storable_address, storable_text
from adapters.postgres.transaction import OnStatements
from core.domain.causes import causing_request
from core.domain.identifiers import EventId, LoginEventId, UserId
from core.domain.identity.devices import Spot
from core.domain.identity.login_events import LoginEvent, OwnLogin, login_tried
from core.domain.identity.risk_policies.policies import Decided, restored_decision
from core.domain.record.events import SYSTEM


def _restored(kept: Mapping[str, Any] | None) -> Decided | None:
    return None if kept is None else restored_decision(kept)


def _stored(decision: Decided | None) -> Jsonb | None:
    return None if decision is None else Jsonb(storable(decision.stored()))


def spot_of(kept: Sequence[int] | None) -> Spot | None:
    return None if kept is None else (kept[0], kept[1])


def _listed(spot: Spot | None) -> list[int] | None:
    return None if spot is None else [*spot]


LOGIN: Final = Columns(
    LoginEvent,
    "login_events",
    named={"user": "user_id", "failure": "reason", "organization": "organization_id", "service": "service_id", "device": "device_id"},
    apart=("address", "risk_score"),
    prefix="login_",
    turned={"decision": (_restored, _stored), "spot": (spot_of, _listed)},
)


def _own_login(*, risk_score: float, device_name: str | None, organization: str | None, service: str | None, **login: Any) -> OwnLogin:
    return OwnLogin(LOGIN.row(risk_score=round(risk_score, 2), **login), device_name or "", organization or "", service or "")


class LoginEventRows(OnStatements):
    """Implements `ports.identity.sign_in.LoginEventStore`."""

    async def list_own(self, user: UserId, before: LoginEventId | None, limit: int) -> Sequence[OwnLogin]:
        return await self._statements.ask(_own_login, _LIST_OWN, {"user": user, "before": before, "limit": limit})

    async def add(self, event: LoginEvent, by_installation: Decided | None = None) -> None:
        await self._statements.tell_along(_ADD, login_parameters(event))
        for decided in (event.decision, by_installation):
            if decided is not None:
                parameters = {"id": event.id, "organization": decided.organization, "decided": _stored(decided), "at": event.created_at}
                await self._statements.tell_along(_DECIDE, parameters)
        if event.organization is not None:
            await self._statements.tell_along(_QUEUE_FOR_EXPORT, {"id": event.id, "organization": event.organization})


def login_parameters(event: LoginEvent) -> Mapping[str, object]:
    """The parameters of `log_login`."""
    return {
        "login_id": event.id,
        "login_user": event.user,
        "login_organization": event.organization,
        "login_service": event.service,
        "login_device": event.device,
        "login_provider": event.provider,
        "login_success": event.failure is None,
        "login_reason": None if event.failure is None else event.failure.value,
        "login_address": storable_address(event.address),
        "login_user_agent": None if event.user_agent is None else storable_text(event.user_agent),
        "login_risk_score": event.risk_score,
        "login_risk_factors": array_of_texts(event.risk_factors),
        "login_flagged": event.flagged,
        "login_country": event.country,
        "login_city": event.city,
        "login_spot": _listed(event.spot),
        "login_at": event.created_at,
        "login_decision": _stored(event.decision),
        "login_request": causing_request(),
    }


def log_login(
    source: LiteralString,
    *,
    user: LiteralString = "%(login_user)s::uuid",
    organization: LiteralString = "%(login_organization)s::uuid",
    service: LiteralString = "%(login_service)s::uuid",
    device: LiteralString = "%(login_device)s::uuid",
    provider: LiteralString = "%(login_provider)s::text",
    at: LiteralString = "%(login_at)s::timestamptz",
) -> LiteralString:
    """Adds a login event. A statement that itself finds out who signs in, and to what, passes its own columns instead of parameters."""
    return f"""
    insert into login_events (id, user_id, organization_id, service_id, device_id, provider, success, reason, address, user_agent,
                              risk_score, risk_factors, flagged, country, city, spot, created_at, request_id, decision)
    select %(login_id)s::uuid, {user}, {organization}, {service}, {device}, {provider}, %(login_success)s::boolean, %(login_reason)s::text,
           %(login_address)s::inet, %(login_user_agent)s::text, %(login_risk_score)s::real, %(login_risk_factors)s::text[],
           %(login_flagged)s::boolean, %(login_country)s::text, %(login_city)s::text,
           %(login_spot)s::smallint[], {at},
           %(login_request)s::uuid, %(login_decision)s::jsonb
      from {source}
    """


def published_parameters(id: EventId, login: LoginEvent) -> Mapping[str, object]:  # noqa: A002 - the noun's own word
    """The parameters of `tell_login`."""
    event = login_tried(login, SYSTEM)
    return {
        "event": id,
        "event_name": event.name,
        "event_target": event.target.type,
        "event_details": Jsonb(storable(event.details)),
        "event_request": causing_request(),
    }


def tell_login(
    source: LiteralString,
    *,
    user: LiteralString,
    organization: LiteralString,
    service: LiteralString,
    provider: LiteralString,
    at: LiteralString,
    agent: LiteralString = "null",
) -> LiteralString:
    """Adds the event that webhooks receive about a sign-in, for a statement that itself finds out who signs in, and to what. `login_tried`,
    in the domain, makes the rest of the event. `agent` is the client id of an agent that acts for the person from now on. A test compares
    the result with a whole event of `login_tried`.
    """
    return f"""
    insert into events (id, name, organization_id, actor_id, target_type, target_id, details, occurred_at, request_id)
    select %(event)s::uuid, %(event_name)s::text, {organization}, {user}, %(event_target)s::text, {user}::text,
           %(event_details)s::jsonb || jsonb_build_object('provider', {provider}, 'service_id', {service})
           || jsonb_strip_nulls(jsonb_build_object('agent', {agent}::text)), {at},
           %(event_request)s::uuid
      from {source}
 returning {PUBLISHED}
    """


# A source of one row, for a statement whose values are all parameters.
_ALONE: Final = "(values (true)) as this (event)"
_ADD: Final[LiteralString] = log_login(_ALONE)
_DECIDE: Final = """
    insert into risk_decisions (login_event_id, organization_id, decided, created_at)
    values (%(id)s, %(organization)s, %(decided)s, %(at)s)
"""


def queue_for_export(source: LiteralString, event: LiteralString, organization: LiteralString) -> LiteralString:
    """Queues the login event for export, if the organization exports its sign-ins. The row travels with the statement that logs the
    sign-in, and waits for no lock: the row gets its number later (`adapters/postgres/tenancy/siem_queue.py`).
    """
    return f"""
    insert into sign_in_pending (event_id, export_id)
    select {event}, siem_configurations.id
      from {source}
      join siem_configurations on siem_configurations.org_id = {organization}
    """


_QUEUE_FOR_EXPORT: Final[LiteralString] = queue_for_export(_ALONE, "%(id)s::uuid", "%(organization)s::uuid")

# The statement reads an index backwards, as far as one page goes.
_LIST_OWN: Final[LiteralString] = f"""
    select latest.*, devices.name as device_name, organizations.name as organization, services.name as service
      from (
               select {LOGIN.names}, host(address) as address, risk_score
                 from login_events
                where user_id = %(user)s and (%(before)s::uuid is null or id < %(before)s)
                order by id desc
                limit %(limit)s
           ) as latest
      left join devices on devices.id = latest.login_device and devices.user_id = latest.login_user and devices.revoked_at is null
      left join organizations on organizations.id = latest.login_organization
      left join services on services.id = latest.login_service
     order by latest.login_id desc
"""

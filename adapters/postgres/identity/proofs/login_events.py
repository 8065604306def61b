"""Login events, what rules for risk read of them, and suspicious activity."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, LiteralString
from uuid import UUID

import msgspec
from psycopg.types.json import Jsonb

from adapters.postgres.columns import Columns, array_of_texts, storable, storable_address, storable_text
from adapters.postgres.record.events import PUBLISHED
from adapters.postgres.statements import OnPool, OnStatements, ask
from adapters.postgres.ties import shown_name
from core.domain.causes import request_text
from core.domain.formats import Json
from core.domain.identifiers import DeviceId, EventId, LoginEventId, OrganizationId, UserId
from core.domain.identity.devices import Spot
from core.domain.identity.guards.guesses import GuessAlert, Suspicions, spread_of
from core.domain.identity.login_events import (
    ALERTING_BACKUP_CODES,
    ALERTING_GUESSES,
    ALERTING_MFA_FAILURES,
    IMPOSSIBLE_WITHIN,
    MOST_ALERTS,
    MOST_EVENTS,
    SIGN_IN_FAILURES,
    SIGN_IN_TOPIC,
    Alert,
    AlertType,
    LoginEvent,
    OwnLogin,
    login_tried,
)
from core.domain.identity.mfa import MfaEvent
from core.domain.identity.risk import RiskFactor
from core.domain.identity.risk_policies.policies import (
    NO_ROLE,
    Decided,
    RiskPolicies,
    restored_decision,
    restored_exception,
    restored_policy,
)
from core.domain.identity.risk_policies.verdicts import AskedRules, SeenSignIn
from core.domain.mail import Email
from core.domain.record.events import SYSTEM
from core.frozen import Frozen, replace


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
            self._statements.ring_here(SIGN_IN_TOPIC)


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
        "login_request": request_text(),
    }


# The types of these parameters, for a function that has them as arguments.
LOGIN_ARGUMENTS: Final[Mapping[LiteralString, LiteralString]] = {
    "login_id": "uuid",
    "login_success": "boolean",
    "login_reason": "text",
    "login_address": "inet",
    "login_user_agent": "text",
    "login_risk_score": "real",
    "login_risk_factors": "text[]",
    "login_flagged": "boolean",
    "login_country": "text",
    "login_city": "text",
    "login_spot": "smallint[]",
    "login_request": "uuid",
    "login_decision": "jsonb",
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
        "event_details": msgspec.json.encode(storable(event.details)).decode(),
        "event_request": request_text(),
    }


# The types of these parameters, for a function that has them as arguments.
PUBLISHED_ARGUMENTS: Final[Mapping[LiteralString, LiteralString]] = {
    "event": "uuid",
    "event_name": "text",
    "event_target": "text",
    "event_details": "jsonb",
    "event_request": "uuid",
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
    sign-in, and waits for no lock: the row gets its number later (`adapters/postgres/tenancy/siem.py`).
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


def asked_rules(value: Sequence[Mapping[str, Any]] | None) -> tuple[AskedRules, ...]:
    return tuple(_asked(one) for one in value or ())


def risk_policies(policies: Sequence[Mapping[str, Any]], exceptions: Sequence[Mapping[str, Any]], since: datetime | None) -> RiskPolicies:
    """Takes the columns of the organization. A rule that counted before the moment of each was kept counts since the first of all."""
    restored = tuple(restored_policy(one) for one in policies)
    if since is not None:
        restored = tuple(replace(one, counts_since=since) if one.counts and one.counts_since is None else one for one in restored)
    return RiskPolicies(
        policies=restored,
        exceptions=tuple(restored_exception(one) for one in exceptions),
        count_since=since,
    )


def _asked(value: Mapping[str, Any]) -> AskedRules:
    return AskedRules(
        organization=None if value["organization"] is None else OrganizationId(UUID(value["organization"])),
        rules=risk_policies(value["policies"], value["exceptions"], None),
        is_own=value["is_own"],
        role=value["role"] or NO_ROLE,
        teams=frozenset(UUID(one) for one in value["teams"]),
        seen=tuple(_seen(*one) for one in value["seen"]),
    )


def _seen(at: float, country: str | None, device: str | None, failure: str | None, spot: Sequence[int] | None) -> SeenSignIn:
    known = None if device is None else DeviceId(UUID(device))
    return SeenSignIn(datetime.fromtimestamp(at, UTC), country, known, failure, spot_of(spot))


class _Row(Frozen, kw_only=True):
    """Of a person, or of nobody: then it has neither account nor details."""

    name: str | None
    user_id: UUID | None
    email: str | None
    type: str
    details: dict[str, Json] | None
    detected_at: datetime
    network: str | None
    family: str | None
    marks: int | None
    failures: int | None
    first_at: datetime | None

    def of_person(self) -> Alert | None:
        if self.user_id is None or self.email is None:
            return None
        return Alert(UserId(self.user_id), Email(self.email), AlertType(self.type), self.details or {}, self.detected_at, self.name)

    def of_nobody(self) -> GuessAlert | None:
        if self.marks is None or self.failures is None or self.first_at is None:
            return None
        spread = spread_of(self.marks)
        return GuessAlert(AlertType(self.type), self.network, self.family, spread, self.failures, self.first_at, self.detected_at)


class PostgresSuspiciousActivity(OnPool):
    """Implements `ports.platform.SuspiciousActivity`."""

    async def alerts(self, since: datetime) -> Suspicions:
        rows = await ask(self._pool, _Row, _ALERTS, {**_RULES, "since": since})
        people, nobody = (row.of_person() for row in rows), (row.of_nobody() for row in rows)
        return Suspicions([one for one in people if one is not None], [one for one in nobody if one is not None])


_RULES: Final[Mapping[str, Any]] = {
    "most_events": MOST_EVENTS,
    "most_alerts": MOST_ALERTS,
    "guesses": [reason.value for reason in ALERTING_GUESSES],
    "sign_in_failures": SIGN_IN_FAILURES.count,
    "sign_in_within": SIGN_IN_FAILURES.within,
    "wrong_code": MfaEvent.VERIFY_FAILED,
    "mfa_failures": ALERTING_MFA_FAILURES.count,
    "mfa_within": ALERTING_MFA_FAILURES.within,
    "backup_code": MfaEvent.BACKUP_CODE_USED,
    "backup_codes": ALERTING_BACKUP_CODES.count,
    "backup_codes_within": ALERTING_BACKUP_CODES.within,
    "impossible_within": IMPOSSIBLE_WITHIN,
    "proxy": RiskFactor.PROXY,
    "unusual_time": RiskFactor.UNUSUAL_TIME,
    "strange": [RiskFactor.NEW_DEVICE.value, RiskFactor.UNKNOWN_LOCATION.value],
    **{kind.name.lower(): kind for kind in AlertType},
}


# The API's format for times. jsonb would write times in the connection's time zone and in PostgreSQL's own format.
_TIME: Final[LiteralString] = """'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'"""


def _burst(counted: LiteralString, within: LiteralString, count: LiteralString, kind: LiteralString) -> LiteralString:
    """One alert for each person who has at least `count` events within the span `within`. At each event, the window counts the events in
    the span that ends there.
    """
    return f"""
    select user_id, %({kind})s::text as type, max(created_at) filter (where so_far >= %({count})s) as detected_at,
           jsonb_build_object(
               'count', max(so_far),
               'window_minutes', round(extract(epoch from %({within})s::interval) / 60)::int,
               'first_at', to_char(min(created_at) at time zone 'UTC', {_TIME}),
               'last_at', to_char(max(created_at) at time zone 'UTC', {_TIME}),
               'addresses', to_jsonb((array_agg(distinct host(address)) filter (where address is not null))[1:10])
           ) as details
      from (
               select user_id, created_at, address,
                      count(*) over (
                          partition by user_id order by created_at range between %({within})s::interval preceding and current row
                      ) as so_far
                 from {counted}
           ) as counted
     group by user_id
    having max(so_far) >= %({count})s
"""


def _single(condition: LiteralString, kind: LiteralString) -> LiteralString:
    """One alert for each person: the latest sign-in that meets the condition."""
    return f"""
    select user_id, %({kind})s::text as type, created_at as detected_at,
           jsonb_build_object('address', host(address), 'country', country, 'city', city, 'risk_score', round(risk_score::numeric, 2),
                              'risk_factors', to_jsonb(risk_factors)) as details
      from (select distinct on (user_id) * from sign_ins where {condition} order by user_id, created_at desc) as latest
"""


# The statement reads all events through an index on the time, at most `MOST_EVENTS` of each kind.
_ALERTS: Final[LiteralString] = f"""
    with tries as materialized (
             select user_id, success, reason, address, country, city, risk_score, risk_factors, flagged, created_at
               from login_events
              where created_at > %(since)s
              order by created_at desc
              limit %(most_events)s
         ),
         sign_ins as (
             select * from tries where success and user_id is not null
         ),
         guesses as (
             select user_id, address, created_at from tries where reason = any(%(guesses)s) and user_id is not null
         ),
         wrong_codes as (
             select user_id, address, created_at
               from mfa_events
              where name = %(wrong_code)s and created_at > %(since)s
              order by created_at desc
              limit %(most_events)s
         ),
         backup_codes_used as (
             select user_id, address, created_at
               from mfa_events
              where name = %(backup_code)s and created_at > %(since)s
              order by created_at desc
              limit %(most_events)s
         ),
         journeys as (
             select user_id, created_at, country, address,
                    lag(country) over earlier as country_before, lag(created_at) over earlier as before
               from sign_ins
              where country is not null and %(proxy)s <> all(risk_factors)
             window earlier as (partition by user_id order by created_at)
         ),
         guessed_at as (
             select distinct on (user_id) user_id, %(many_passwords_over_one_account)s::text, last_at,
                    jsonb_build_object('count', failures,
                                       'first_at', to_char(first_at at time zone 'UTC', {_TIME}),
                                       'last_at', to_char(last_at at time zone 'UTC', {_TIME}))
               from (
                        select user_id, failures, first_at, last_at
                          from guess_alerts
                         where last_at > %(since)s and type = %(many_passwords_over_one_account)s and user_id is not null
                         order by last_at desc
                         limit %(most_events)s
                    ) as latest
              order by user_id, last_at desc
         ),
         alerts as (
             {_burst("guesses", "sign_in_within", "sign_in_failures", "repeated_sign_in_failures")}
              union all
             {_burst("wrong_codes", "mfa_within", "mfa_failures", "repeated_mfa_failures")}
              union all
             {_burst("backup_codes_used", "backup_codes_within", "backup_codes", "backup_code_burst")}
              union all
             {_single("%(unusual_time)s = any(risk_factors) and risk_factors && %(strange)s", "unusual_hour")}
              union all
             {_single("flagged", "high_risk_sign_in")}
              union all
             select user_id, %(impossible_travel)s::text, created_at,
                    jsonb_build_object('from', country_before, 'to', country, 'address', host(address),
                                       'minutes', round(extract(epoch from created_at - before) / 60)::int)
               from (
                        select distinct on (user_id) *
                          from journeys
                         where country <> country_before and created_at - before < %(impossible_within)s
                         order by user_id, created_at desc
                    ) as latest
              union all
             select * from guessed_at
         )
  (
      select users.id as user_id, users.email, {shown_name("users")} as name, alerts.type, alerts.details, alerts.detected_at,
             null::text as network, null::text as family, null::int as marks, null::int as failures, null::timestamptz as first_at
        from alerts
        join users on users.id = alerts.user_id
       order by alerts.detected_at desc, users.id, alerts.type
       limit %(most_alerts)s
  )
   union all
  (
      select null, null, null, type, null, last_at, network, family, marks, failures, first_at
        from guess_alerts
       where last_at > %(since)s and type <> %(many_passwords_over_one_account)s
       order by last_at desc, id
       limit %(most_alerts)s
  )
"""

"""Suspicious activity among the sign-ins and second factors of the last hours, from PostgreSQL."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.statements import ask
from adapters.postgres.ties import shown_name
from adapters.postgres.transaction import OnPool
from core.domain.formats import Json
from core.domain.identifiers import UserId
from core.domain.identity.guards.guesses import GuessAlert, Suspicions, spread_of
from core.domain.identity.login_events import (
    ALERTING_BACKUP_CODES,
    ALERTING_GUESSES,
    ALERTING_MFA_FAILURES,
    IMPOSSIBLE_WITHIN,
    MOST_ALERTS,
    MOST_EVENTS,
    SIGN_IN_FAILURES,
    Alert,
    AlertType,
)
from core.domain.identity.mfa import MfaEvent
from core.domain.identity.risk import RiskFactor
from core.domain.mail import Email
from core.frozen import Frozen


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

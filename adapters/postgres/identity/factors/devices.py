"""Devices in PostgreSQL, and the knowledge of devices and of a person's habits that a sign-in needs."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import takewhile
from typing import Any, Final, LiteralString
from uuid import UUID

from adapters.postgres.columns import Columns
from adapters.postgres.statements import first
from adapters.postgres.storable import storable_address, storable_text
from adapters.postgres.ties import IS_OWN_MEMBERSHIP
from adapters.postgres.transaction import OnStatements
from core.domain.identifiers import DeviceId, SessionId, UserId
from core.domain.identity.devices import Device, DeviceType, Location, UserAgent, located
from core.domain.identity.risk import FAILED_ATTEMPTS, HISTORY, NOTHING_KNOWN, Approach, Knowledge, KnownDevice, Sighting
from core.frozen import Frozen

# A part of any statement that reads `users`: one jsonb value about the row's person. `knowledge_parameters` gives the parameters of this
# part, and `knowledge_of` reads its value:
#
#     select users.id, …, {KNOWLEDGE} as knowledge from users where email_key = %(email_key)s
#
# Every subquery reads a bounded number of rows from an index, however many sign-ins a stranger has tried: the last `HISTORY` good sign-ins,
# the last twenty of all, and the person's devices. The value holds these rows uncounted: most people have few, and for PostgreSQL an
# aggregate costs more to initialize than the rows cost to read.
_KNOWLEDGE: Final[LiteralString] = """(
    select jsonb_build_object(
               {shown}
               'by_agent', (
                   select jsonb_build_object('id', devices.id, 'trusted_until', extract(epoch from devices.trusted_until))
                     from devices
                    where devices.user_id = users.id
                      and devices.revoked_at is null
                      and devices.device_type = %(device_type)s
                      and devices.browser is not distinct from %(device_browser)s
                      and devices.os is not distinct from %(device_os)s
                    order by devices.last_used_at desc
                    limit 1
               ),
               'good', array(
                   select jsonb_build_array(extract(hour from login_events.created_at at time zone 'UTC'), login_events.country)
                     from login_events
                    where login_events.user_id = users.id and login_events.success and not login_events.flagged
                    order by login_events.id desc
                    limit %(device_history)s
               ),
               'latest', array(
                   select case when not login_events.success then coalesce(login_events.reason, '') end
                     from login_events
                    where login_events.user_id = users.id
                    order by login_events.id desc
                    limit 20
               )
               {trust_days}
           )
)"""
# The fewest days of trust that one of the person's own organizations allows. Null for a person without one.
STRICTEST_TRUST: Final[LiteralString] = f"""
                   select min(organizations.device_trust_days)
                     from memberships
                     join organizations on organizations.id = memberships.org_id
                    where memberships.user_id = {{user}} and {IS_OWN_MEMBERSHIP} and organizations.status = 'active'
"""
_STRICTEST: Final[LiteralString] = STRICTEST_TRUST.format(user="devices.user_id")
# The period counts from the moment when the trust was given, even if the organization has shortened the period since. A row without
# `trusted_at` is older than that column; its trust was given for 30 days.
_TRUSTED_UNTIL: Final[LiteralString] = f"""
                   case
                       when devices.trusted_until is not null
                       then least(
                                devices.trusted_until,
                                coalesce(devices.trusted_at, devices.trusted_until - interval '30 days')
                                + ({_STRICTEST}) * interval '1 day'
                            )
                   end"""
_SHOWN: Final[LiteralString] = f"""
               'by_token', (
                   select jsonb_build_object(
                              'id', devices.id,
                              'trusted_until', extract(epoch from {_TRUSTED_UNTIL}),
                              'brings_trust', coalesce(devices.trust_digest = %(trust_digest)s, false)
                          )
                     from devices
                    where devices.token_digest = %(device_digest)s and devices.user_id = users.id and devices.revoked_at is null
               ),
"""
_TRUST_DAYS: Final[LiteralString] = f""",
               'trust_days', ({STRICTEST_TRUST.format(user="users.id")})
"""
KNOWLEDGE: Final[LiteralString] = _KNOWLEDGE.format(shown=_SHOWN, trust_days=_TRUST_DAYS)
# The knowledge that the first statement of a sign-in reads, by whether the client shows a device token. It leaves out `trust_days`: a
# person can ask for trust only together with a second factor, and then a second statement reads the whole knowledge.
FIRST_KNOWLEDGE: Final[Mapping[bool, LiteralString]] = {
    True: _KNOWLEDGE.format(shown=_SHOWN, trust_days=""),
    False: _KNOWLEDGE.format(shown="", trust_days=""),
}


def knowledge_parameters(approach: Approach) -> Mapping[str, Any]:
    client, agent = approach.client, approach.agent
    return {
        "device_digest": None if client.device_token is None else client.device_token.digest(),
        "trust_digest": None if client.trust_token is None else client.trust_token.digest(),
        "device_type": agent.device_type.value,
        "device_browser": _text(agent.browser),
        "device_os": _text(agent.os),
        "device_history": HISTORY,
    }


_FAILURES: Final = frozenset(failure.value for failure in FAILED_ATTEMPTS)


def knowledge_of(value: Mapping[str, Any]) -> Knowledge:
    good, failures = value["good"], takewhile(_is_failure, value["latest"])
    return Knowledge(
        by_token=_known(value.get("by_token")),
        by_agent=_known(value["by_agent"]),
        sign_ins=len(good),
        hours=frozenset(hour for hour, _ in good),
        countries=frozenset(country for _, country in good if country is not None),
        failed_attempts=sum(reason in _FAILURES for reason in failures),
        trust_days=value.get("trust_days"),
    )


def _is_failure(reason: str | None) -> bool:
    """A sign-in that succeeded has the reason None."""
    return reason is not None


def _known(value: Mapping[str, Any] | None) -> KnownDevice | None:
    if value is None:
        return None
    until = value["trusted_until"]
    return KnownDevice(
        DeviceId(UUID(value["id"])), None if until is None else datetime.fromtimestamp(until, UTC), value.get("brings_trust", False)
    )


class _Knowledge(Frozen):
    knowledge: dict[str, Any]


DEVICE: Final = Columns(
    Device, "devices", named={"user": "user_id"}, apart=("agent", "last_address", "last_location", "risk_score", "trusted_until")
)


def _device(
    *,
    device_type: str,
    browser: str | None,
    browser_version: str | None,
    os: str | None,
    os_version: str | None,
    last_country: str | None,
    last_city: str | None,
    risk_score: float,
    **columns: Any,
) -> Device:
    return DEVICE.row(
        agent=UserAgent(DeviceType(device_type), browser, browser_version, os, os_version),
        last_location=located(last_country, last_city),
        risk_score=round(risk_score, 2),
        **columns,
    )


class DeviceRows(OnStatements):
    """Implements `ports.identity.sign_in.DeviceStore`."""

    async def list(self, user: UserId) -> Sequence[Device]:
        return await self._statements.ask(_device, _LIST, {"user": user})

    async def find(self, device: DeviceId) -> Device | None:
        return first(await self._statements.ask(_device, _GET, {"id": device}))

    async def knowledge(self, user: UserId, approach: Approach) -> Knowledge:
        rows = await self._statements.ask(_Knowledge, _KNOWLEDGE_OF_USER, {"user": user, **knowledge_parameters(approach)})
        return knowledge_of(rows[0].knowledge) if rows else NOTHING_KNOWN

    async def add(self, device: Device, token_digest: bytes) -> None:
        await self._statements.tell_along(
            _ADD,
            {
                "id": device.id,
                "user": device.user,
                "token_digest": token_digest,
                "name": _text(device.name),
                **_seen_with(device.agent, device.last_address, device.last_location),
                "risk_score": device.risk_score,
                "risk_factors": list(device.risk_factors),
                "at": device.created_at,
            },
        )

    async def used(self, device: DeviceId, user: UserId, sighting: Sighting, token_digest: bytes | None, at: datetime) -> None:
        approach = sighting.approach
        brought = approach.client.device_token if sighting.is_proven else None
        await self._statements.tell_along(
            _USED,
            {
                "id": device,
                "user": user,
                "token_digest": token_digest,
                "brought_digest": None if brought is None else brought.digest(),
                "name": _text(approach.agent.name),
                **_seen_with(approach.agent, approach.client.address, approach.location),
                "risk_score": sighting.risk.score,
                "risk_factors": [factor.value for factor in sighting.risk.factors],
                "at": at,
            },
        )

    async def trust(self, device: DeviceId, trust_digest: bytes, at: datetime, until: datetime) -> None:
        await self._statements.tell(_TRUST, {"id": device, "digest": trust_digest, "at": at, "until": until})

    async def end_trust(self, user: UserId) -> None:
        await self._statements.tell(_END_TRUST, {"user": user})

    async def hold(self, device: DeviceId) -> Device | None:
        return first(await self._statements.ask(_device, _HOLD, {"id": device}))

    async def rename(self, device: DeviceId, name: str, at: datetime) -> None:
        await self._statements.tell(_RENAME, {"id": device, "name": _text(name), "at": at})

    async def revoke(self, device: DeviceId, at: datetime) -> None:
        await self._statements.tell(_REVOKE, {"id": device, "at": at})

    async def revoke_all(self, user: UserId, at: datetime, *, but: SessionId | None = None) -> None:
        await self._statements.tell(_REVOKE_ALL, {"user": user, "at": at, "but": but})


def _text(text: str | None) -> str | None:
    return None if text is None else storable_text(text)


def _seen_with(agent: UserAgent, address: str | None, location: Location | None) -> Mapping[str, Any]:
    return {
        "device_type": agent.device_type.value,
        "browser": _text(agent.browser),
        "browser_version": _text(agent.browser_version),
        "os": _text(agent.os),
        "os_version": _text(agent.os_version),
        "address": storable_address(address),
        "country": None if location is None else _text(location.country),
        "city": None if location is None else _text(location.city),
    }


_KNOWLEDGE_OF_USER: Final[LiteralString] = f"select {KNOWLEDGE} as knowledge from users where users.id = %(user)s"

# Who writes `last_used_at` writes its week, too: otherwise a trigger does, at the price of a call.
_WEEK: Final = "date_trunc('week', %(at)s::timestamptz at time zone 'UTC')::date"

_ADD: Final[LiteralString] = f"""
    insert into devices (id, user_id, token_digest, name, device_type, browser, browser_version, os, os_version, last_used_at, last_address,
                         last_country, last_city, risk_score, risk_factors, created_at, updated_at, last_used_week)
    values (%(id)s, %(user)s, %(token_digest)s, %(name)s, %(device_type)s, %(browser)s, %(browser_version)s, %(os)s, %(os_version)s, %(at)s,
            %(address)s, %(country)s, %(city)s, %(risk_score)s, %(risk_factors)s, %(at)s, %(at)s, {_WEEK})
"""

# The device keeps its name, because the person may have chosen the name. If the clean-up has deleted the row since the sign-in recognized
# the device, the statement inserts the row again.
_USED: Final[LiteralString] = f"""
    insert into devices (id, user_id, token_digest, name, device_type, browser, browser_version, os, os_version, last_used_at, last_address,
                         last_country, last_city, risk_score, risk_factors, created_at, updated_at, last_used_week)
    values (%(id)s, %(user)s, coalesce(%(token_digest)s::bytea, %(brought_digest)s), %(name)s, %(device_type)s, %(browser)s,
            %(browser_version)s, %(os)s, %(os_version)s, %(at)s, %(address)s, %(country)s, %(city)s, %(risk_score)s, %(risk_factors)s,
            %(at)s, %(at)s, {_WEEK})
        on conflict (id) do update
       set device_type = excluded.device_type, browser = excluded.browser, browser_version = excluded.browser_version, os = excluded.os,
           os_version = excluded.os_version, last_used_at = excluded.last_used_at, last_used_week = excluded.last_used_week,
           last_address = excluded.last_address,
           last_country = excluded.last_country, last_city = excluded.last_city, risk_score = excluded.risk_score,
           risk_factors = excluded.risk_factors,
           token_digest = coalesce(%(token_digest)s, devices.token_digest),
           trust_digest = case when %(token_digest)s::bytea is null then devices.trust_digest end,
           trusted_until = case when %(token_digest)s::bytea is null then devices.trusted_until end,
           revoked_at = null
"""

_TRUST: Final = "update devices set trust_digest = %(digest)s, trusted_until = %(until)s, trusted_at = %(at)s where id = %(id)s"

# The statement locks the devices in the order in which a deletion locks them, so that the two cannot deadlock.
_END_TRUST: Final = """
    with trusted as (
             select id
               from devices
              where user_id = %(user)s and trusted_until is not null and revoked_at is null
              order by id
                for no key update
         )
  update devices
     set trust_digest = null, trusted_until = null
    from trusted
   where devices.id = trusted.id
"""

# Locked in the same order.
_REVOKE_ALL: Final = """
       with known
         as (
             select id
               from devices
              where user_id = %(user)s
                and revoked_at is null
                and id is distinct from (select device_id from sessions where sessions.id = %(but)s)
              order by id
                for no key update
         )
  update devices
     set revoked_at = %(at)s, token_digest = null, trust_digest = null, trusted_until = null, updated_at = %(at)s
    from known
   where devices.id = known.id
"""

_COLUMNS: Final[LiteralString] = f"""
    {DEVICE.names}, device_type, browser, browser_version, os, os_version, host(last_address) as last_address, last_country, last_city,
    risk_score, {_TRUSTED_UNTIL} as trusted_until
"""

_HOLD: Final[LiteralString] = f"select {_COLUMNS} from devices where id = %(id)s for no key update"

_GET: Final[LiteralString] = f"select {_COLUMNS} from devices where id = %(id)s and revoked_at is null"

_LIST: Final[LiteralString] = (
    f"select {_COLUMNS} from devices where user_id = %(user)s and revoked_at is null order by last_used_at desc, id"
)

_RENAME: Final = "update devices set name = %(name)s, updated_at = %(at)s where id = %(id)s"

_REVOKE: Final = """
    update devices
       set revoked_at = %(at)s, token_digest = null, trust_digest = null, trusted_until = null, updated_at = %(at)s
     where id = %(id)s
"""

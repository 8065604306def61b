"""The janitor's sweeps. Each statement deletes one small batch, and skips rows that another transaction holds at the moment. What goes for
its age stays while the clock cannot be believed.
"""

from datetime import timedelta
from typing import ClassVar, LiteralString

from adapters.postgres.database import BELIEVED
from adapters.postgres.driver.pool import Pool
from adapters.postgres.federation import logout_notices
from adapters.postgres.rate_limits import FORGET_FULL
from adapters.postgres.signing_keys import NEEDED_UNTIL
from adapters.postgres.statements import ask, tell
from adapters.postgres.tenancy.siem_queue import FORGET_RECEIVED
from adapters.postgres.tenancy.webhook_queue import FORSAKE
from core.frozen import Frozen
from ports.database import Housekeeping


def _delete(
    table: LiteralString, key: LiteralString, condition: LiteralString, *, oldest_first: LiteralString | None = None
) -> LiteralString:
    """Deletes a batch of the rows that meet the condition. `oldest_first` names a column of times, and keeps the planner on its index,
    however long the table is.
    """
    order = f"order by {oldest_first}" if oldest_first else ""
    return f"""
        delete from {table}
         where {BELIEVED}
           and {key} = any (array(select {key} from {table} where {condition} {order} limit %(limit)s for update skip locked))
    """


class _Sweep:
    """Implements `ports.database.Housekeeping`."""

    statement: ClassVar[LiteralString]

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def delete_expired(self, limit: int) -> int:
        return await tell(self._pool, self.statement, {"limit": limit})


class ExpiredSessions(_Sweep):
    """Expired sessions are kept for thirty days and the rest of the day, so that a person can still see where they were signed in."""

    statement = _delete("sessions", "id", "expires_day < (now() at time zone 'UTC' - interval '30 days')::date", oldest_first="expires_day")


class RevokedSessions(_Sweep):
    """Revoked sessions are kept for thirty days after the revocation, for the same reason as expired ones."""

    statement = _delete("sessions", "id", "revoked_at < now() - interval '30 days'")


class RevokedDevices(_Sweep):
    """Revoked devices are kept for thirty days: until then a second revocation is answered like the first."""

    statement = _delete("devices", "id", "revoked_at < now() - interval '30 days'")


class UnusedDevices(_Sweep):
    """Nobody has signed in with the device for a year and the rest of the week: its last session ended long ago, and its client has
    forgotten the device or is gone.
    """

    statement = _delete(
        "devices",
        "id",
        "last_used_week < date_trunc('week', now() at time zone 'UTC' - interval '1 year')::date",
        oldest_first="last_used_week",
    )


class RotatedRefreshTokens(_Sweep):
    """A session's rotated tokens, once their return would show nothing: by then such a token is as unknown as any other. The current token
    is deleted with its session.
    """

    statement = _delete("refresh_tokens", "digest", "rotated_at < now() - interval '30 days'")


class ExpiredPreauthentications(_Sweep):
    """Used or not, expired pre-authentications no longer let anyone in."""

    statement = _delete("preauthentications", "id", "expires_at < now()")


class ExpiredAuthorizationCodes(_Sweep):
    """Expired codes are kept for a day: when a code comes back in that time, the session that it was exchanged for ends."""

    statement = _delete("authorization_codes", "id", "expires_at < now() - interval '1 day'")


class ExpiredPushedRequests(_Sweep):
    """No browser came with these requests in time."""

    statement = _delete("pushed_requests", "id", "expires_at < now()")


class ExpiredClientAssertions(_Sweep):
    """Postern would refuse these assertions as expired, so it need not remember their ids."""

    statement = _delete("client_assertions", "id", "expires_at < now() - interval '5 minutes'")


class ExpiredDeviceCodes(_Sweep):
    """Expired device codes are kept for an hour, so that a device that asks too late is told so."""

    statement = _delete("device_codes", "id", "expires_at < now() - interval '1 hour'")


class ExpiredSamlRequests(_Sweep):
    """Postern would refuse these requests as too old, so it need not remember their ids."""

    statement = _delete("saml_requests", "id", "expires_at < now() - interval '5 minutes'")


class PastAuthorizationRefusals(_Sweep):
    """Refused requests are kept for a week, so that people can find out why a sign-in failed."""

    statement = _delete("authorization_refusals", "id", "occurred_at < now() - interval '7 days'", oldest_first="occurred_at")


class PastSamlExchanges(_Sweep):
    """Exchanges are kept for a week, so that people can find out why an exchange failed."""

    statement = _delete("saml_exchanges", "id", "created_at < now() - interval '7 days'", oldest_first="created_at")


class ExpiredConnectionAnswers(_Sweep):
    """The assertions in these answers have ended, so they need not be remembered."""

    statement = _delete("connection_answers", "id", "expires_at < now()")


class ExpiredConnectionTests(_Sweep):
    """Results of tests are shown for an hour. Nobody has finished the other ones in time."""

    statement = _delete("connection_tests", "id", "expires_at < now()")


class PastConnectionExchanges(_Sweep):
    """Exchanges are kept for a week, so that people can find out why a sign-in failed."""

    statement = _delete("connection_exchanges", "id", "created_at < now() - interval '7 days'", oldest_first="created_at")


class ExpiredPasskeyChallenges(_Sweep):
    """Nobody answered these challenges in time."""

    statement = _delete("passkey_challenges", "digest", "expires_at < now()")


class ExpiredOAuthStates(_Sweep):
    """Nobody came back from the provider with these states in time."""

    statement = _delete("oauth_states", "digest", "expires_at < now()")


class ExpiredFlows(_Sweep):
    """Nobody continued these flows in time."""

    statement = _delete("flows", "id", "expires_at < now()")


class PastMailedTokens(_Sweep):
    """Past tokens are kept for a week, so that a person who opens an old link can be told that the link is old, or used."""

    statement = _delete("mailed_tokens", "digest", "expires_at < now() - interval '7 days'")


class FullBuckets(_Sweep):
    """A full bucket carries no more information than a missing one."""

    statement = FORGET_FULL


class RetiredSigningKeys(_Sweep):
    """The last token that these keys signed has expired, and no application sends one back as a hint any more."""

    statement = _delete("all_signing_keys", "id", f"state = 'outgoing' and {NEEDED_UNTIL} < now()")


class DeadJobs(_Sweep):
    """Dead jobs are kept for thirty days, so that an operator can see and revive them."""

    statement = _delete("jobs", "id", "state = 'dead' and died_at < now() - interval '30 days'")


class ExpiredManagementKeys(_Sweep):
    """Expired management keys stay listed for thirty days, so that people see why a program stopped."""

    statement = _delete("management_keys", "id", "expires_at < now() - interval '30 days'", oldest_first="expires_at")


class PastSetupLinks(_Sweep):
    """Ended set-up links stay listed for thirty days, so that people see what was set up with them, by whom. Drafts go with their link, and
    so do the connections that never became active.
    """

    statement: ClassVar[LiteralString] = f"""
        with past as (
                 select id
                   from setup_links
                  where {BELIEVED} and expires_at < now() - interval '30 days'
                  order by expires_at
                  limit %(limit)s
                    for update skip locked
             ),
             gone as (
                 delete from upstream_providers
                  using setup_drafts
                  where setup_drafts.link_id in (select id from past) and setup_drafts.upstream_provider_id = upstream_providers.id
                    and upstream_providers.state <> 'active' and upstream_providers.activated_at is null
                    and not exists (select from domain_routes where domain_routes.own_provider = upstream_providers.id)
             )
        delete from setup_links where id in (select id from past)
    """


class PastScimExchanges(_Sweep):
    """Requests of directories are kept for a week: after that nobody looks them up any more."""

    statement = _delete("scim_exchanges", "id", "occurred_at < now() - interval '7 days'", oldest_first="occurred_at")


class PastEventDetails(_Sweep):
    """The personal part of events. Webhooks have got their deliveries, or Postern has given these up, long before."""

    statement: ClassVar[LiteralString] = f"""
        update events
           set personal = null
         where {BELIEVED}
           and id = any (array(
                   select id
                     from events
                    where personal is not null and occurred_at < now() - interval '90 days'
                    order by occurred_at
                    limit %(limit)s
                      for update skip locked
               ))
    """


class PastBillingEvents(_Sweep):
    """Applied news has long taken effect by then. News that was never applied is deleted too, because the daily look at all subscriptions
    has caught up.
    """

    statement = _delete("billing_events", "id", "received_at < now() - interval '90 days'", oldest_first="received_at")


class ReleasedBillingSubscriptions(_Sweep):
    """Subscriptions at the payment provider that belong to nobody here: released and cancelled, or never known to belong to anybody."""

    statement = _delete(
        "billing_subscriptions",
        "external_id",
        "(released_at is not null or service_id is null) and cancel_at is null and updated_at < now() - interval '90 days'",
        oldest_first="updated_at",
    )


class ForsakenDeliveries(_Sweep):
    """Deliveries to webhooks that are disabled, or of organizations that are not active. Postern gives these up, and deletes none."""

    statement = FORSAKE


class ExpiredLogins(_Sweep):
    """Writes the notices that tell services of their expired sessions. Deletes nothing."""

    statement = logout_notices.EXPIRE


class ForsakenNotices(_Sweep):
    """Notices that no service has received within a day. Postern gives these up, and deletes none."""

    statement = logout_notices.FORSAKE


class ReceivedSignIns(_Sweep):
    """Numbered sign-ins that a SIEM has received, and numbered sign-ins of deleted exports."""

    statement = FORGET_RECEIVED


class PastOutages(_Sweep):
    """An outage counts for minutes. The row of a provider that nobody calls any more would otherwise stay for ever."""

    statement = _delete("provider_outages", "provider", "failed_at < now() - interval '1 day'")


class DeliveriesOfNobody(_Sweep):
    """Deliveries to webhooks that have been deleted. Nobody sees these any more, and nothing is sent."""

    statement = """
        with recursive named (webhook_id) as (
                 (select webhook_id from webhook_deliveries order by webhook_id limit 1)
                  union all
                 select (select webhook_id
                           from webhook_deliveries
                          where webhook_deliveries.webhook_id > named.webhook_id
                          order by webhook_id
                          limit 1)
                   from named
                  where named.webhook_id is not null
             ),
             deleted as materialized (
                 select webhook_id from named where not exists (select from webhooks where webhooks.id = named.webhook_id)
             ),
             left_over as (
                 select deliveries.id
                   from deleted
                  cross join lateral (
                            select id from webhook_deliveries where webhook_id = deleted.webhook_id limit %(limit)s for update skip locked
                        ) as deliveries
                  limit %(limit)s
             )
      delete from webhook_deliveries where id = any (array(select id from left_over))
    """


class _Retained(_Sweep):
    """Rows that are kept as long as a setting says."""

    def __init__(self, pool: Pool, retention: timedelta) -> None:
        super().__init__(pool)
        self._retention = retention

    async def delete_expired(self, limit: int) -> int:
        return await tell(self._pool, self.statement, {"limit": limit, "retention": self._retention})


class _Swept(Frozen):
    count: int


class _RetainedInParts(_Retained):
    """Rows of a table that is cut by month. Whole months are dropped, not swept (`upkeep/partitions.py`). These rows were there before the
    first month, or belong to none.
    """

    async def delete_expired(self, limit: int) -> int:
        (swept,) = await ask(self._pool, _Swept, self.statement, {"limit": limit, "retention": self._retention})
        return swept.count


class PastLoginEvents(_RetainedInParts):
    """Older habits are deleted with these sign-ins: a person who signs in again after this long counts as a person with little history."""

    statement = "select sweep_partitions('login_events', %(retention)s::interval, %(limit)s) as count"


class PastEvents(_RetainedInParts):
    """Events that no webhook needs any more."""

    statement = "select sweep_partitions('events', %(retention)s::interval, %(limit)s) as count"


class PastMfaEvents(_Retained):
    """The log of second factors is kept as long as the log of the sign-ins that it belongs to."""

    statement = _delete("mfa_events", "id", "created_at < now() - %(retention)s::interval", oldest_first="created_at")


class PastDeliveries(_RetainedInParts):
    """Outcomes of deliveries to webhooks."""

    statement = "select sweep_partitions('webhook_deliveries', %(retention)s::interval, %(limit)s) as count"


class PastNotices(_Retained):
    """Outcomes of logout notices, which tell services that sessions have ended."""

    statement = _delete("logout_notices", "id", "created_at < now() - %(retention)s::interval", oldest_first="created_at")


def sweeps(
    pool: Pool, *, login_event_retention: timedelta, delivery_retention: timedelta, event_retention: timedelta
) -> tuple[Housekeeping, ...]:
    """All sweeps. Events are kept as long as deliveries: else each sweep would pass over all those that a delivery still tells."""
    return (
        *(sweep(pool) for sweep in _Sweep.__subclasses__() if not issubclass(sweep, _Retained)),
        *(sweep(pool, login_event_retention) for sweep in (PastLoginEvents, PastMfaEvents)),
        *(sweep(pool, delivery_retention) for sweep in (PastDeliveries, PastNotices)),
        PastEvents(pool, max(event_retention, delivery_retention)),
    )

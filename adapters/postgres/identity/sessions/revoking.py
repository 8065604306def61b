"""How any session is revoked, and how the service that it was opened in learns of it."""

from typing import Final, LiteralString

from adapters.postgres.transaction import CHANNEL
from core.domain.identity.sessions import LOGOUT_TOPIC

# Ids of notices begin with the time, so that they are listed in its order (UUIDv7).
_NEW_ID: Final = "(lpad(to_hex((extract(epoch from now()) * 1000)::bigint), 12, '0') || '-7' || substr(gen_random_uuid()::text, 16))::uuid"


def revoking(which: LiteralString) -> LiteralString:
    """The live ones among them, and all that were opened from those. A request that opens a session from another holds the account of the
    other. Hold it too, in a statement before this one, or a session that is being opened slips through.

    Locked in one order everywhere, as presence and refresh do: two that revoke or mark the same sessions cannot deadlock.
    """
    return f"""
    with recursive ending as (
             select id
               from sessions
              where {which} and revoked_at is null
          union
             select sessions.id
               from sessions
               join ending on sessions.parent_id = ending.id
              where sessions.revoked_at is null
         ),
         living as (
             select id, user_id, service_id
               from sessions
              where id = any (array(select id from ending)) and revoked_at is null
              order by id
                for no key update
         ),
         noticed as ({noticing("living")})
  update sessions
     set revoked_at = now()
    from living
   where sessions.id = living.id
"""


def ending_codes(whose: LiteralString) -> LiteralString:
    """Codes that no application has redeemed, and devices that were approved and have not come yet, lead nowhere. It goes with
    whatever ends all sessions of a person somewhere: otherwise what was approved a moment before opens one a moment after. Hold the
    account, in a statement before this one. Whoever redeems holds it too, and has opened the session already or finds the code gone.

    A code goes with its row: who redeems it at this moment has read it before, and looks only for the row again.
    """
    return f"""
    with ended as (
             delete from authorization_codes where {whose} and redeemed_at is null
         )
  update device_codes
     set state = 'denied'
   where {whose} and state = 'approved'
"""


# `but` and its line: the sessions that it was opened from, itself, and those that were opened from it.
LINE: Final = """
                 with recursive above as (
                          select id, parent_id from sessions where id = %(but)s
                       union all
                          select sessions.id, sessions.parent_id from sessions join above on sessions.id = above.parent_id
                      ),
                      below as (
                          select id from sessions where id = %(but)s
                       union all
                          select sessions.id from sessions join below on sessions.parent_id = below.id
                      )
               select id from above union select id from below
"""


def noticing(ended: LiteralString) -> LiteralString:
    """A notice for each of these sessions whose service wants to be told (OpenID Connect Back-Channel Logout). It is part of the statement
    that ends them, so no end can be forgotten. `ended` names their ids, users and services, and holds their rows: so two that end the same
    session do not wait for each other's notices.

    Dispatchers are told only if there is something for them, since a notification makes commits wait for each other.
    """
    return f"""
             insert into logout_notices (id, service_id, session_id, user_id, next_at, created_at, updated_at)
             select {_NEW_ID}, told.id, ended.id, ended.user_id, now(), now(), now()
               from {ended} as ended
               join all_services as told on told.id = ended.service_id
              where told.backchannel_logout_uri is not null and told.deleted_at is null
                 on conflict (service_id, session_id) do nothing
          returning pg_notify('{CHANNEL}', '{LOGOUT_TOPIC}')
    """

"""The SQL that revokes sessions, and queues logout notices for the services in which the sessions were opened."""

from typing import Final, LiteralString

from adapters.postgres.transaction import CHANNEL
from core.domain.identity.sessions import LOGOUT_TOPIC

# Ids of notices begin with the time (UUIDv7), so that the order of the ids is the order of time.
_NEW_ID: Final = "(lpad(to_hex((extract(epoch from now()) * 1000)::bigint), 12, '0') || '-7' || substr(gen_random_uuid()::text, 16))::uuid"


def revoking(which: LiteralString) -> LiteralString:
    """Revokes the live sessions that meet the condition `which`, and all sessions that were opened from them.

    Lock the account in a statement before this one. A request that opens a session from another one locks the account, too. Without the
    lock, a session that is being opened would escape.

    The statement locks sessions in the order of their ids, as presence and refresh do. So two statements that revoke or mark the same
    sessions cannot deadlock.
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
    """Deletes the authorization codes that no application has redeemed, refuses requests from afar that wait for their tokens, and denies
    the device codes that the person has approved and no device has redeemed. Use this statement beside every statement that ends all
    sessions of a person somewhere: otherwise an approval from a moment before opens a session a moment after.

    Lock the account in a statement before this one. A request that redeems a code locks the account, too: either that request has already
    opened its session, or it finds the code gone.

    A request from afar that waits for the person's answer becomes nobody's, and stays as it is for its application: otherwise the
    application would learn that there is such a person, and the moment of a new password.

    The statement deletes the row of an authorization code, because a request that redeems the code at this moment has read the row
    before, and only looks whether the row still exists.
    """
    return f"""
    with ended as (
             delete from authorization_codes where {whose} and redeemed_at is null
         ),
         from_afar as (
             update afar_requests
                set state = case state when 'allowed' then 'refused' else state end,
                    user_id = case state when 'allowed' then user_id end,
                    binding_message = case state when 'allowed' then binding_message end,
                    session_id = null
              where {whose} and state in ('pending', 'allowed')
         )
  update device_codes
     set state = 'denied'
   where {whose} and state = 'approved'
"""


# The session in the parameter `but`, the sessions from which it was opened, and the sessions that were opened from it.
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
    """Adds a logout notice for each of these sessions whose service wants notices (OpenID Connect Back-Channel Logout). The notices are
    part of the statement that ends the sessions, so no statement can forget them.

    `ended` is a table of the sessions' ids, users and services, and its statement has locked the sessions. So two statements that end the
    same session do not wait for each other's notices.

    The statement notifies dispatchers only if it adds a notice, because a notification makes commits wait for each other.
    """
    return f"""
             insert into logout_notices (id, service_id, session_id, user_id, next_at, created_at, updated_at)
             select {_NEW_ID}, told.id, ended.id, ended.user_id, now(), now(), now()
               from {ended} as ended
               join all_services as told on told.id = ended.service_id
              where told.backchannel_logout_uri is not null and told.deleted_at is null
                -- Nobody signed in for an exchange, so nobody is signed out.
                and not exists (select from sessions as opened where opened.id = ended.id and opened.exchanged_from is not null)
                 on conflict (service_id, session_id) do nothing
          returning pg_notify('{CHANNEL}', '{LOGOUT_TOPIC}')
    """

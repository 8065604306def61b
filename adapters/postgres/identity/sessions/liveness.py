"""Conditions that many statements use: whether a session is live, and whether an application can authenticate."""

from typing import Final, LiteralString

# How long a session rests before it ends. It carries what the rules said when it was opened.
IDLE: Final = "coalesce(sessions.minutes_idle * interval '1 minute', %(idle)s)"

# The conditions for the lives that the organization and the service of a session say, the shorter one. A null number says nothing.
_IS_YOUNG_ENOUGH: Final = """
       and (organizations.session_hours is null
         or coalesce(sessions.proved_at, sessions.created_at) + organizations.session_hours * interval '1 hour' > now())
       and (services.session_lifetime_hours is null
         or coalesce(sessions.proved_at, sessions.created_at) + services.session_lifetime_hours * interval '1 hour' > now())
"""
_IS_IN_USE: Final = """
       and (organizations.session_idle_minutes is null
         or sessions.last_seen_at + organizations.session_idle_minutes * interval '1 minute' > now())
       and (services.session_idle_minutes is null
         or sessions.last_seen_at + services.session_idle_minutes * interval '1 minute' > now())
"""

# A session is live until it ends or exceeds a limit of its organization or service. Its user must be active. If a platform owner acts in
# the user's name, that platform owner must be active, too, and the user must not be a platform owner, not even one who has become so since.
IS_LIVE: Final[LiteralString] = f"""
           sessions.revoked_at is null
       and sessions.expires_at > now()
       and sessions.ends_at > now()
       {_IS_YOUNG_ENOUGH.strip()}
       {_IS_IN_USE.strip()}
       and users.deactivated_at is null
       and (sessions.organization_id is null or organizations.id is not null)      -- neither organization nor service is being deleted
       and (sessions.service_id is null or services.id is not null)
       and (sessions.impersonator_id is null or not users.is_platform_owner and exists (
               select from users as impersonators
                where impersonators.id = sessions.impersonator_id
                  and impersonators.is_platform_owner
                  and impersonators.deactivated_at is null
           ))
"""


# A part of any statement with the parameter `session`, the id of a session.
SESSION_LIVES: Final[LiteralString] = f"""exists (
               select
                 from sessions
                 join users on users.id = sessions.user_id
                 left join organizations on organizations.id = sessions.organization_id
                 left join services on services.id = sessions.service_id
                where sessions.id = %(session)s
                  and {IS_LIVE}
           )"""


def lost_nothing_since(time: LiteralString) -> LiteralString:
    """A condition on `services`: the application has lost no credential since `time`, so a grant from that time needs only the client id.

    Once an application has lost its credentials, anybody can name its client id. A grant that the application received while it still
    authenticated must not go to others. A grant from the minute after the loss counts as received before, because its request may have
    come in just before the loss, and clocks differ.
    """
    return f"coalesce({time} > services.credential_removed_at + interval '1 minute', true)"


# A condition on `services`: the application has keys or a secret to authenticate with. Other applications have only a client id, which
# anybody may use.
AUTHENTICATES: Final = "(services.jwks is not null or exists (select from client_secrets where client_secrets.service_id = services.id))"

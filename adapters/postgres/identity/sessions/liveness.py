"""Conditions that many statements carry: when a session counts, and whether an application can show who it is."""

from typing import Final, LiteralString

# A session counts while it has not ended, nor outlasted what its organization allows, its user is active, and so is the platform owner who
# acts in the user's name, if one does. Nobody acts in the name of a platform owner, even of a person who has become one since.
IS_LIVE: Final = """
           sessions.revoked_at is null
       and sessions.expires_at > now()
       and sessions.ends_at > now()
       and (organizations.session_hours is null
         or coalesce(sessions.proved_at, sessions.created_at) + organizations.session_hours * interval '1 hour' > now())
       and users.deactivated_at is null
       and (sessions.organization_id is null or organizations.id is not null)      -- it is not being deleted, nor is its service
       and (sessions.service_id is null or services.id is not null)
       and (sessions.impersonator_id is null or not users.is_platform_owner and exists (
               select from users as impersonators
                where impersonators.id = sessions.impersonator_id
                  and impersonators.is_platform_owner
                  and impersonators.deactivated_at is null
           ))
"""


# A part of any statement that has a session's id at hand, as `session`.
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
    """Of `services`: what was given at this time was given to whoever says its name, and may be used by saying it. What was given to an
    application that showed who it is does not go to others once it cannot any more. Who sent a request just before it lost what it could
    show, or has another clock, is taken for one of before.
    """
    return f"coalesce({time} > services.credential_removed_at + interval '1 minute', true)"


# Of `services`: by keys or a secret. Others have only a name, which anybody may say.
AUTHENTICATES: Final = "(services.jwks is not null or exists (select from client_secrets where client_secrets.service_id = services.id))"

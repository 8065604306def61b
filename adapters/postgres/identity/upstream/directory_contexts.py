"""The authentication context that an organization's own directory stated for a session, as a part of any statement."""

from typing import LiteralString


def directory_context(methods: LiteralString, session: LiteralString, organization: LiteralString) -> LiteralString:
    """Null unless a directory of this organization has opened the session. Only a sign-in at a provider costs the look."""
    return f"""case when 'fed' = any ({methods}) then (
               select directory_sessions.context_class
                 from directory_sessions
                 join upstream_providers on upstream_providers.id = directory_sessions.upstream_provider_id
                where directory_sessions.session_id = {session} and upstream_providers.org_id = {organization}
           ) end"""

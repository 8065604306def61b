"""Who has started a test of a connection, and may still do so, in PostgreSQL."""

from typing import Final, LiteralString

from adapters.postgres.rows import AnswerRow
from adapters.postgres.statements import ask
from adapters.postgres.tenancy.relations import RELATED
from adapters.postgres.transaction import OnPool
from core.domain.identifiers import ConnectionTestId
from core.domain.tenancy.roles import Capability, relations_with


class PostgresTestStarters(OnPool):
    """Implements `ports.tenancy.connections.TestStarters`."""

    async def may_go_on(self, test: ConnectionTestId) -> bool:
        rows = await ask(self._pool, AnswerRow, _MAY_GO_ON, {"test": test, "may": relations_with(Capability.SETTINGS_MANAGE)})
        return any(row.yes for row in rows)


# A test asks the directory with the organization's password, so it ends with the session, key or link that has started it, and with the
# right of whoever is behind that. The holder of a set-up link has no other right than the link.
_STILL_MAY: Final[LiteralString] = f"""
                   users.deactivated_at is null
               and exists (select from ({RELATED}) as related where related.relation = any(%(may)s))
"""
_MAY_GO_ON: Final[LiteralString] = f"""
    select (
               coalesce(tests.session_id, tests.management_key_id, tests.setup_link_id) is null
            or exists (
                   select
                     from sessions
                     join users on users.id = sessions.user_id
                     join organizations as wanted on wanted.id = providers.org_id
                    where sessions.id = tests.session_id and sessions.revoked_at is null and sessions.expires_at > now() and {_STILL_MAY}
               )
            or exists (
                   select
                     from management_keys
                     join users on users.id = coalesce(management_keys.adopted_by, management_keys.created_by)
                     join organizations as wanted on wanted.id = providers.org_id
                    where management_keys.id = tests.management_key_id and management_keys.expires_at > now() and {_STILL_MAY}
               )
            or exists (
                   select
                     from setup_links
                    where setup_links.id = tests.setup_link_id and setup_links.revoked_at is null and setup_links.expires_at > now()
               )
           ) as yes
      from connection_tests as tests
      join upstream_providers as providers on providers.id = tests.upstream_provider_id
     where tests.id = %(test)s
"""

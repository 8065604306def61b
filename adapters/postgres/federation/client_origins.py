"""Origins of applications that run in browsers, in PostgreSQL. An index finds them in the applications' redirect URIs."""

from typing import Final, LiteralString

from adapters.postgres.driver.pool import Pool
from adapters.postgres.identity.sessions.liveness import AUTHENTICATES
from adapters.postgres.rows import AnswerRow
from adapters.postgres.statements import ask
from adapters.postgres.storable import storable_text


class PostgresClientOrigins:
    """Implements `ports.federation.oauth.ClientOriginLookup`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def includes(self, origin: str) -> bool:
        (answer,) = await ask(self._pool, AnswerRow, _INCLUDES, {"origin": storable_text(origin)})
        return answer.yes


_INCLUDES: Final[LiteralString] = f"""
    select exists (
               select
                 from services
                 join organizations on organizations.id = services.org_id
                where services.service_type = 'web'
                  and web_origins(services.redirect_uris) @> array[%(origin)s::text]
                  and organizations.status = 'active'
                  and not {AUTHENTICATES}
           ) as yes
"""

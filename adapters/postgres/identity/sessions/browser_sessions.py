"""Browser sessions in PostgreSQL: the digests of their cookies."""

from collections.abc import Sequence
from typing import Final, LiteralString
from uuid import UUID

from adapters.postgres.identity.factors.mfa import second_factor_due
from adapters.postgres.identity.sessions.doors import door_parameters
from adapters.postgres.identity.sessions.renewed_proofs import RENEWED, proof_parameters
from adapters.postgres.identity.terms.demands import terms_due
from adapters.postgres.rows import IdRow
from adapters.postgres.statements import first
from adapters.postgres.storable import storable_text
from adapters.postgres.transaction import OnTransaction
from core.domain.identifiers import SessionId, UserId
from core.domain.identity.browser_sessions import Chosen
from core.domain.identity.proofs import Proved
from core.domain.identity.sessions import Doors


class BrowserSessionRows(OnTransaction):
    """Implements `ports.identity.sessions.BrowserSessionStore` in one transaction."""

    async def add(self, digest: bytes, session: SessionId) -> None:
        await self._transaction.tell_along(_ADD, {"digest": digest, "session": session})

    async def renew(
        self,
        digest: bytes,
        session: SessionId,
        user: UserId,
        proved: Proved,
        methods: Sequence[str],
        *,
        opened_through: UUID | None,
        doors: Doors,
    ) -> bool:
        parameters = {
            "digest": digest,
            "session": session,
            "user": user,
            **proof_parameters(proved),
            "methods": list(methods),
            "opened_through": opened_through,
            **door_parameters(doors),
        }
        return bool(await self._transaction.ask(IdRow, _RENEW, parameters))

    async def choose(self, session: SessionId, user: UserId, slug: str) -> Chosen | None:
        parameters = {"session": session, "user": user, "slug": storable_text(slug)}
        return first(await self._transaction.ask(Chosen, _CHOOSE, parameters))


_ADD: Final = "insert into browser_sessions (digest, session_id) values (%(digest)s, %(session)s)"

# A method that the person has once used stays.
_RENEW: Final[LiteralString] = f"""
    with proved as (
             update sessions
                set {RENEWED},
                    opened_through = coalesce(%(opened_through)s::uuid, opened_through),
                    let_in_by = case
                        when %(let_in_by)s::uuid[] is null then let_in_by
                        else array(
                                 select unnest(let_in_by || %(let_in_by)s::uuid[]) except select unnest(%(kept_out_by)s::uuid[])
                             )
                    end,
                    kept_out_by = case
                        when %(let_in_by)s::uuid[] is null then kept_out_by
                        else array(
                                 select unnest(kept_out_by || %(kept_out_by)s::uuid[]) except select unnest(%(let_in_by)s::uuid[])
                             )
                    end,
                    authenticated_by = authenticated_by || array(
                        select method
                          from unnest(%(methods)s::text[]) with ordinality as shown (method, place)
                         where method <> all (authenticated_by)
                         order by place
                    )
              where id = %(session)s and user_id = %(user)s and revoked_at is null and expires_at > now() and ends_at > now()
          returning id
         )
  update browser_sessions
     set digest = %(digest)s
    from proved
   where browser_sessions.session_id = proved.id
returning proved.id
"""

_CHOOSE: Final[LiteralString] = f"""
    with chosen as (
             select organizations.id, {second_factor_due("memberships.user_id", "sessions")} as second_factor_due,
                    {terms_due("memberships.user_id")} as terms_due
               from organizations
               join memberships on memberships.org_id = organizations.id and memberships.user_id = %(user)s
               join sessions on sessions.id = %(session)s
              where organizations.slug = %(slug)s::text
          union all
             select null::uuid, null::timestamptz, null::timestamptz where %(slug)s::text = ''
         )
  update browser_sessions
     set chosen_organization = chosen.id
    from chosen, sessions
   where browser_sessions.session_id = %(session)s and sessions.id = browser_sessions.session_id and sessions.user_id = %(user)s
returning chosen.second_factor_due, chosen.terms_due
"""

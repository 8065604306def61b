"""Answers that further providers have sent by forms, in PostgreSQL."""

from typing import Final
from uuid import UUID

from adapters.postgres.rows import IdRow
from adapters.postgres.statements import ask
from adapters.postgres.transaction import OnPool
from core.domain.identity.upstream.further_sign_ins import PostedAnswer
from core.frozen import Frozen


class _Waiting(Frozen):
    id: UUID
    sealed_answer: bytes


class PostgresPostedAnswers(OnPool):
    """Implements `ports.identity.upstream.PostedAnswerStore`."""

    async def keep(self, answer: PostedAnswer) -> bool:
        parameters = {
            "id": answer.id,
            "provider": answer.provider,
            "code": answer.code_digest,
            "state": answer.state_digest,
            "sealed": answer.sealed,
            "expires_at": answer.expires_at,
        }
        return bool(await ask(self._pool, IdRow, _KEEP, parameters))

    async def redeem(self, provider: str, code_digest: bytes, state_digest: bytes) -> tuple[UUID, bytes] | None:
        parameters = {"provider": provider, "code": code_digest, "state": state_digest}
        rows = await ask(self._pool, _Waiting, _REDEEM, parameters)
        return (rows[0].id, rows[0].sealed_answer) if rows else None


_KEEP: Final = """
    insert into posted_answers (id, provider, code_digest, state_digest, sealed_answer, expires_at)
    select %(id)s, oauth_states.provider, %(code)s, %(state)s, %(sealed)s, %(expires_at)s
      from oauth_states
      join further_providers on further_providers.key = oauth_states.provider and further_providers.settings @> '{"posts_answer": true}'
     where oauth_states.digest = %(state)s and oauth_states.provider = %(provider)s and oauth_states.expires_at > now()
        on conflict (state_digest) do update
       set id = excluded.id, code_digest = excluded.code_digest, sealed_answer = excluded.sealed_answer, expires_at = excluded.expires_at
 returning id
"""

_REDEEM: Final = """
    delete from posted_answers
     where code_digest = %(code)s and provider = %(provider)s and state_digest = %(state)s and expires_at > now()
 returning id, sealed_answer
"""

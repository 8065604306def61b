"""Newcomers in PostgreSQL."""

from datetime import datetime
from typing import Final, LiteralString

from adapters.postgres.columns import Columns
from adapters.postgres.rows import IdRow
from adapters.postgres.statements import first
from adapters.postgres.storable import storable_text
from adapters.postgres.transaction import OnStatements
from core.domain.identifiers import FlowId
from core.domain.identity.upstream.further_sign_ins import WaitingNewcomer

NEWCOMER: Final = Columns(WaitingNewcomer, "newcomers", named={"flow": "flow_id"}, texts=("email",))


class NewcomerRows(OnStatements):
    """Implements `ports.identity.upstream.NewcomerStore`."""

    async def keep(self, newcomer: WaitingNewcomer) -> None:
        await self._statements.tell(_KEEP, NEWCOMER.values(newcomer))

    async def find(self, flow: FlowId, now: datetime) -> WaitingNewcomer | None:
        return first(await self._statements.ask(NEWCOMER.row, _FIND, {"flow": flow, "now": now}))

    async def send(self, flow: FlowId, email: str, code_digest: bytes, most: int, now: datetime) -> bool:
        parameters = {"flow": flow, "email": storable_text(email), "code_digest": code_digest, "most": most, "now": now}
        return bool(await self._statements.ask(IdRow, _SEND, parameters))

    async def attempt(self, flow: FlowId, now: datetime) -> WaitingNewcomer | None:
        return first(await self._statements.ask(NEWCOMER.row, _ATTEMPT, {"flow": flow, "now": now}))

    async def remove(self, flow: FlowId) -> None:
        await self._statements.tell(_REMOVE, {"flow": flow})


_OF_FLOW: Final = "flow_id = %(flow)s and expires_at > %(now)s"

_KEEP: Final = """
    insert into newcomers (flow_id, provider, sealed_word, email, code_digest, codes, tries, created_at, expires_at)
    values (%(flow)s, %(provider)s, %(sealed_word)s, %(email)s, %(code_digest)s, %(codes)s, %(tries)s, %(created_at)s, %(expires_at)s)
        on conflict (flow_id) do update
       set provider = excluded.provider, sealed_word = excluded.sealed_word, email = excluded.email, code_digest = excluded.code_digest,
           codes = excluded.codes, tries = excluded.tries, created_at = excluded.created_at, expires_at = excluded.expires_at
"""

_FIND: Final[LiteralString] = f"select {NEWCOMER.names} from newcomers where {_OF_FLOW}"

_SEND: Final[LiteralString] = f"""
    update newcomers
       set email = %(email)s, code_digest = %(code_digest)s, codes = codes + 1, tries = 0
     where {_OF_FLOW} and codes < %(most)s
 returning flow_id as id
"""

_ATTEMPT: Final[LiteralString] = f"""
    update newcomers
       set tries = tries + 1
     where {_OF_FLOW} and code_digest is not null
 returning {NEWCOMER.names}
"""

_REMOVE: Final = "delete from newcomers where flow_id = %(flow)s"

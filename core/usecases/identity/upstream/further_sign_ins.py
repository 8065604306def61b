"""Sign-ins by custom providers: responses by `form_post`, and assertions about new users, which wait in flows."""

import json
from typing import Any
from urllib.parse import urlencode

from core.domain.formats import Json
from core.domain.identifiers import FlowId
from core.domain.identity.flows import FlowOver
from core.domain.identity.upstream.claims import Asserted
from core.domain.identity.upstream.further_sign_ins import (
    LONGEST_ECHO,
    LONGEST_STATED,
    NEWCOMER_LIFETIME,
    WAITS,
    PostedAnswer,
    WaitingNewcomer,
    answer_context,
    restored_word,
    stored_word,
    word_context,
)
from core.domain.identity.upstream.providers import provider_key
from core.domain.identity.upstream.sign_in import is_code
from core.domain.secrets import Token
from core.frozen import Frozen
from core.usecases.identity.upstream.journeys import Vouched
from ports.crypto import KeyRing
from ports.identity.upstream import PostedAnswerStore
from ports.system import System
from ports.unit_of_work import UnitOfWorkFactory


class PostedAnswers(Frozen):
    store: PostedAnswerStore
    keyring: KeyRing
    system: System
    base_url: str

    async def receive(self, provider: str, *, state: str, code: str, stated: str, error: str, issuer: str | None) -> str:
        """Keeps the answer, if a browser has left with this state. Returns the address of ours where its browser goes on, which says what
        is wrong with any other. Raises `UnknownProvider`.
        """
        key = provider_key(provider)
        query = {"state": state[:LONGEST_ECHO], **({} if issuer is None else {"iss": issuer[:LONGEST_ECHO]})}
        if error or not is_code(Token(code)):
            return self._back(key, {**query, "error": error[:LONGEST_ECHO]})
        identifier, ours, now = self.system.ids.new(), self.system.secrets.token(), self.system.clock.now()
        content = {"code": code, "stated": _read(stated)}
        answer = PostedAnswer(
            id=identifier,
            provider=key,
            code_digest=ours.digest(),
            state_digest=Token(state).digest(),
            sealed=self.keyring.seal(json.dumps(content).encode(), answer_context(identifier)),
            expires_at=now + WAITS,
        )
        # The same form, sent again after its browser came back, finds its state used. The way back answers as one that comes twice.
        kept = await self.store.keep(answer)
        return self._back(key, {**query, "code": ours.reveal()} if kept else query)

    def _back(self, provider: str, query: dict[str, Any]) -> str:
        return f"{self.base_url}/auth/{provider}/callback?{urlencode(query)}"


def _read(stated: str) -> Json:
    """What the form says of the person. None when it says nothing that can be read."""
    if not 0 < len(stated) <= LONGEST_STATED:
        return None
    try:
        read: Json = json.loads(stated)
    except (ValueError, RecursionError):
        return None
    return read if isinstance(read, dict) else None


class NewcomerWords(Frozen):
    unit_of_work: UnitOfWorkFactory
    keyring: KeyRing
    system: System

    async def keep(self, flow: FlowId, vouched: Vouched) -> None:
        now = self.system.clock.now()
        newcomer = WaitingNewcomer(
            flow=flow,
            provider=vouched.upstream.key,
            sealed_word=self.keyring.seal(json.dumps(stored_word(vouched.asserted)).encode(), word_context(flow)),
            created_at=now,
            expires_at=now + NEWCOMER_LIFETIME,
        )
        async with self.unit_of_work() as uow:
            await uow.newcomers.keep(newcomer)
            await uow.commit()

    async def get(self, flow: FlowId) -> WaitingNewcomer:
        """Raises `FlowOver` when nobody waits in the flow."""
        async with self.unit_of_work() as uow:
            found = await uow.newcomers.find(flow, self.system.clock.now())
        if found is None:
            raise FlowOver
        return found

    def opened(self, newcomer: WaitingNewcomer) -> Asserted:
        return restored_word(json.loads(self.keyring.open(newcomer.sealed_word, word_context(newcomer.flow))))

"""One question to one hook: signed, sent through the guarded client, and read. Nothing is kept or decided here, and nobody waits longer
than the hook's owner has said.
"""

from datetime import datetime, timedelta
from typing import Final

import structlog

from core.domain.secrets import Secret
from core.domain.tenancy.hooks import (
    LONGEST_ANSWER,
    UNREADABLE,
    HookAnswer,
    HookExchange,
    HookQuestion,
    HookSilent,
    answer_of,
    hook_context,
    hook_destination,
    masked,
    previous_hook_context,
)
from core.domain.tenancy.webhooks import signed_by
from core.frozen import Frozen
from ports.crypto import CannotOpen, KeyRing
from ports.outbound import Outbound, OutboundAnswer, OutboundFailed, OutboundRequest
from ports.system import System
from ports.tenancy.hooks import SealedHook

SILENT: Final = "silent"

log = structlog.get_logger()


class HookCalled(Frozen):
    """None: the hook was silent, and the exchange says why."""

    answer: HookAnswer | None
    exchange: HookExchange


class HookCalls(Frozen):
    outbound: Outbound
    keyring: KeyRing
    system: System

    async def ask(self, sealed: SealedHook, question: HookQuestion, *, counted: bool, is_test: bool = False) -> HookCalled:
        """No transaction may be open meanwhile: the receiver takes as long as it likes, up to the time of the hook."""
        hook, id_of_question, begun = sealed.hook, self.system.ids.new(), self.system.clock.now()
        body = question.body(hook, id_of_question, begun)
        received: OutboundAnswer | None = None
        answer: HookAnswer | None = None
        why = ""
        try:
            signed = signed_by(id_of_question, body, self._secrets(sealed), begun)
            headers = {"content-type": "application/json", "accept": "application/json", "user-agent": "Postern-Hooks", **signed}
            request = OutboundRequest(hook_destination(hook.address), body, headers)
            # A POST is sent once: one that arrives twice would count a person's sign-in twice there.
            received = await self.outbound.send("POST", request, timedelta(seconds=hook.seconds), most=LONGEST_ANSWER)
            answer = answer_of(received.status, received.headers.get("content-type", ""), received.body)
        except HookSilent as silent:
            why = silent.why
        except OutboundFailed as failed:
            why = failed.failure.value
        except CannotOpen:
            log.error("hook_secret_unreadable", hook=str(hook.id))  # noqa: TRY400 - the sentence says it all
            why = UNREADABLE
        return HookCalled(
            answer,
            HookExchange(
                id=id_of_question,
                hook=hook.id,
                at=begun,
                milliseconds=_milliseconds(begun, self.system.clock.now()),
                outcome=SILENT if answer is None else answer.word,
                why=why if answer is None or answer.no is None else answer.no.value,
                counted=counted,
                is_test=is_test,
                sent=masked(body),
                answered="" if received is None else masked(received.body),
            ),
        )

    def _secrets(self, sealed: SealedHook) -> list[Secret]:
        """The present secret, and the one before as long as it signs. Raises `CannotOpen`."""
        secrets = [self._opened(sealed.sealed_secret, hook_context(sealed.hook.id))]
        if sealed.previous_sealed_secret is not None:
            secrets.append(self._opened(sealed.previous_sealed_secret, previous_hook_context(sealed.hook.id)))
        return secrets

    def _opened(self, sealed: bytes, context: str) -> Secret:
        return Secret(self.keyring.open(sealed, context).decode())


def _milliseconds(begun: datetime, ended: datetime) -> int:
    # A clock that was set back meanwhile says less than nothing.
    return max(round((ended - begun).total_seconds() * 1000), 0)

"""The store of flows."""

from datetime import datetime
from typing import Protocol

from core.domain.identifiers import FlowId, PreauthenticationId, SessionId, UserId
from core.domain.identity.flows import Flow


class FlowStore(Protocol):
    """Outside a unit of work, `find` is one statement and one round trip. The other methods need a unit of work."""

    async def find(self, flow: FlowId, browser_digest: bytes) -> Flow | None:
        """The flow with the branding of its organization. None when the flow has expired, belongs to another browser or does not exist."""

    async def add(self, flow: Flow, browser_digest: bytes) -> None: ...

    async def name(self, flow: FlowId, email: str) -> None:
        """Keeps the address that the person gave last. An unfinished sign-in with another address is forgotten."""

    async def choose(self, flow: FlowId, account: UserId, email: str) -> None:
        """Keeps the account that the person has chosen, of those that are signed in in the browser, and its address."""

    async def await_second_factor(self, flow: FlowId, user: UserId, preauthentication: PreauthenticationId) -> None: ...

    async def sign_in(
        self,
        flow: FlowId,
        user: UserId,
        proof_digest: bytes,
        session: SessionId,
        at: datetime,
        *,
        by: str,
        provider: str = "",
        is_logged: bool = False,
        owes_answers: bool = False,
        owes_terms: bool = False,
        offers_passkey: bool = False,
    ) -> None:
        """Records that the person has signed in by this flow: in which way, to which session, and through which provider, if one vouched
        for them; whether the log of the application's organization has the sign-in; whether a page may have fields, and terms, to ask
        for, and whether one is to offer a passkey. The last look before it has found that nobody had signed in by the flow. Needs no round
        trip of its own.
        """

    async def have_answered(self, flow: FlowId) -> None:
        """No page of this flow asks for fields any more."""

    async def offer_passkey(self, flow: FlowId, user: UserId, at: datetime) -> bool:
        """Records that the person of this flow is offered a passkey now. False when there is nothing to offer any more: the person has made
        one, has answered, was offered one elsewhere since the sign-in, or is not who signed in by the flow. True again for the same flow.
        """

    async def answer_offer(self, flow: FlowId, user: UserId, at: datetime, *, never_again: bool = False) -> None:
        """No page of this flow offers a passkey any more, and none of any flow to a person who wants no more of it."""

    async def have_asked_terms(self, flow: FlowId) -> None:
        """The person has accepted terms on the page of this flow, or will another time."""

    async def complete(self, flow: FlowId, at: datetime, *, refused: bool = False) -> bool:
        """Records that the flow is finished. Returns True to only one of several callers, and False to all others. `refused` says that the
        person has refused what the flow asked for.
        """

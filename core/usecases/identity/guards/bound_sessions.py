"""Browser sessions that are bound to a key of the browser: the offer, the registration, and the renewals of the second cookie."""

from core.domain.identifiers import BoundKeyId, SessionId
from core.domain.identity.guards.bound_sessions import (
    PURPOSE,
    BindingOffer,
    BindingOutcome,
    BindingProof,
    BindingProofRefused,
    BindingRule,
    BoundKey,
    NewBoundKey,
    ShownBinding,
    cookie_of,
    proof_refused,
    read_cookie,
    read_registration,
    registration_challenge,
    session_bound,
)
from core.domain.record.events import Actor
from core.domain.secrets import Token
from core.frozen import Frozen
from ports.crypto import BindingProofReader, ServerSecrets
from ports.identity.sessions import BoundKeyStore
from ports.metrics import Metrics
from ports.system import System
from ports.unit_of_work import UnitOfWorkFactory


class RenewedBinding(Frozen):
    """The browser gets this cookie."""

    key: BoundKeyId
    cookie: Token


class ChallengedBinding(Frozen):
    """The browser is asked for a proof with this challenge."""

    key: BoundKeyId
    challenge: str


class BoundSessions(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: BoundKeyStore
    proofs: BindingProofReader
    server_secrets: ServerSecrets
    metrics: Metrics
    system: System
    rule: BindingRule

    async def shown(self, cookie: Token) -> ShownBinding | None:
        """What the second cookie of a browser says. None when it counts no more."""
        return read_cookie(cookie.reveal(), self.system.clock.now(), await self.server_secrets.get(PURPOSE))

    async def offer(self, session: SessionId, shown: ShownBinding | None) -> BindingOffer | None:
        """What the answer to this sign-in offers. None where nothing is offered, or the browser has registered a key, to which the session
        was bound as it began.
        """
        if self.rule is BindingRule.OFF or (shown is not None and shown.is_kept):
            return None
        now, secret = self.system.clock.now(), await self.server_secrets.get(PURPOSE)
        # A browser has one key: whoever signs in with a second account meanwhile gets no offer of another one.
        key = BoundKeyId(self.system.ids.new()) if shown is None else shown.key
        return BindingOffer(registration_challenge(key, session, now, secret), cookie_of(key, now, secret, is_kept=False))

    async def register(self, proof: str, actor: Actor) -> RenewedBinding | None:
        """Takes the key of a browser once, for the challenge in the answer to its sign-in. None when the challenge does not count, the key
        has not signed it, or the session has ended or has a key.
        """
        now, secret = self.system.clock.now(), await self.server_secrets.get(PURPOSE)
        try:
            read = self.proofs.read(proof)
            offered = read_registration(read.challenge, now, secret)
            if offered is None or read.public_key is None:
                self.metrics.binding_asked(BindingOutcome.LATE)
                return None
            self.proofs.verify(proof, read.algorithm, read.public_key)
        except BindingProofRefused:
            self.metrics.binding_asked(BindingOutcome.FORGED)
            return None
        async with self.unit_of_work() as uow:
            key = NewBoundKey(offered.key, read.algorithm, read.public_key, now)
            user = await uow.bound_keys.add(key, offered.session)
            if user is None:
                self.metrics.binding_asked(BindingOutcome.REFUSED)
                return None
            await uow.record(session_bound(user, offered.session, read.algorithm, actor))
            await uow.commit()
        self.metrics.binding_asked(BindingOutcome.REGISTERED)
        return RenewedBinding(offered.key, cookie_of(offered.key, now, secret, is_kept=True))

    async def renew(
        self, id_: BoundKeyId, proof: str | None, in_use: Token | None, actor: Actor
    ) -> RenewedBinding | ChallengedBinding | None:
        """The next cookie for a proof of the key, and otherwise a challenge: whatever is wrong with a proof ends nothing. `in_use` is the
        cookie of the browser's session. None when no session is bound to the key any more.
        """
        key = await self.lookup.find(id_, None if in_use is None else in_use.digest())
        if key is None or not key.has_sessions or key.is_replaced:
            self.metrics.binding_asked(BindingOutcome.OVER)
            return None
        outcome, given = BindingOutcome.ASKED, key.challenges.to_give(self.system.clock.now())
        if proof is not None:
            outcome = await self._judge(key, proof, actor)
        self.metrics.binding_asked(outcome)
        if outcome is BindingOutcome.RENEWED:
            now, secret = self.system.clock.now(), await self.server_secrets.get(PURPOSE)
            return RenewedBinding(key.id, cookie_of(key.id, now, secret, is_kept=True))
        if given is None or outcome is BindingOutcome.USED:
            given = await self.lookup.challenge(key.id, self.system.secrets.token().reveal(), self.system.clock.now())
        return ChallengedBinding(key.id, given)

    async def _judge(self, key: BoundKey, proof: str, actor: Actor) -> BindingOutcome:
        try:
            read = self.proofs.read(proof)
        except BindingProofRefused:
            return BindingOutcome.FORGED
        if not key.challenges.counts(read.challenge, self.system.clock.now()):
            return BindingOutcome.LATE
        try:
            self._verify(key, proof, read)
        except BindingProofRefused:
            await self._log_refusal(key.id, actor)
            return BindingOutcome.FORGED
        # Of two proofs with the same challenge, one counts.
        return BindingOutcome.RENEWED if await self.lookup.use(key.id, read.challenge) else BindingOutcome.USED

    def _verify(self, key: BoundKey, proof: str, read: BindingProof) -> None:
        if read.algorithm != key.algorithm:
            raise BindingProofRefused("another algorithm than the key's")
        self.proofs.verify(proof, key.algorithm, key.public_key)

    async def _log_refusal(self, id_: BoundKeyId, actor: Actor) -> None:
        async with self.unit_of_work() as uow:
            bound = await uow.bound_keys.refuse(id_, self.system.clock.now())
            await uow.record_all([proof_refused(user, session, actor) for user, session in bound])
            await uow.commit()

"""A fresh proof by mail, for people who have nothing else to prove with: no password, no passkey, and a provider that does not say when
somebody signed in there. Whoever reads the mail to the proved address could choose a password by it anyway.
"""

import hmac

from core.domain.email import Email
from core.domain.errors import Forbidden, RateLimited
from core.domain.identifiers import FlowId
from core.domain.identity.accounts import ACCOUNT_MAILS
from core.domain.identity.callers import Caller
from core.domain.identity.devices import Client
from core.domain.identity.mailed_tokens import (
    CODE_DIGITS,
    CODE_LENGTH,
    MAILED_CODES,
    CodeRefused,
    MailedTokenPurpose,
    code_digest,
    mailed_token,
)
from core.domain.identity.proofs import ProofMethod, Proved, StepUp, proof_renewed
from core.domain.identity.sign_in import PASSWORD_PROVIDER, account_key
from core.domain.record.events import Actor
from core.domain.secrets import Secret
from core.frozen import Frozen, replace
from core.usecases.identity.devices import Devices
from core.usecases.identity.login_events import LoginEvents
from core.usecases.identity.mailed_codes import CODES
from core.usecases.identity.reauthentication import Reauthentication
from ports.mail_templates import MailTemplates
from ports.metrics import Metrics
from ports.rate_limits import SharedBuckets
from ports.server_secrets import ServerSecrets
from ports.system import System
from ports.unit_of_work import UnitOfWorkFactory


class MailedProofs(Frozen):
    unit_of_work: UnitOfWorkFactory
    reauthentication: Reauthentication
    templates: MailTemplates
    buckets: SharedBuckets
    server_secrets: ServerSecrets
    devices: Devices
    login_events: LoginEvents
    metrics: Metrics
    system: System

    async def send(self, caller: Caller, client: Client) -> None:
        """Mails a code to the proved address of the caller. Only the last code works, and only in this session. Raises `Forbidden` when the
        caller has another way to prove who they are, or no proved address, and `RateLimited`.
        """
        await self._require_no_other_way(caller)
        wait = await self.buckets.take(ACCOUNT_MAILS, f"{MailedTokenPurpose.PROVE}:{account_key(caller.email)}")
        if wait > 0:
            raise RateLimited(retry_after=wait, detail=ACCOUNT_MAILS.name)
        code: Secret = self.system.secrets.letters(CODE_DIGITS, CODE_LENGTH)
        key = await self.server_secrets.get(CODES)
        issued = mailed_token(
            self.system.secrets.mailed_token(), MailedTokenPurpose.PROVE, caller.user, caller.email, self.system.clock.now()
        )
        digest = self._digest(caller, code, issued.digest, caller.email, key)
        mail = self.templates.mail(
            "proof_code",
            caller.email.address,
            account=caller.user,
            language=caller.language or client.language,
            code=code.reveal(),
        )
        async with self.unit_of_work() as uow:
            await uow.accounts.hold(caller.user)
            await uow.mailed_tokens.issue(replace(issued, flow=FlowId(caller.session), code_digest=digest))
            await uow.jobs.add(replace(mail.as_job(), only_for=caller.user))
            await uow.commit()

    async def use(self, caller: Caller, code: Secret, client: Client, actor: Actor) -> None:
        """Proves the session by the code. A wrong code counts as a failed attempt to sign in. Raises `RateLimited`, and `CodeRefused`, also
        when the address has changed since the mail.
        """
        wait = await self.buckets.take(MAILED_CODES, account_key(caller.email))
        if wait > 0:
            raise RateLimited(retry_after=wait, detail=MAILED_CODES.name)
        approach = await self.devices.observe(client)
        key = await self.server_secrets.get(CODES)
        async with self.unit_of_work() as uow:
            # The account keeps its address until the commit. A try is counted in any case: `log_wrong_code` commits it.
            await uow.accounts.hold_shared(caller.user)
            now = self.system.clock.now()
            found = await uow.mailed_tokens.try_proof(caller.session, caller.user, now)
            is_right = found is not None and hmac.compare_digest(
                found.code_digest or b"", self._digest(caller, code, found.digest, found.email, key)
            )
            if found is None or not is_right or await uow.mailed_tokens.redeem(found.digest, {found.purpose}, now) is None:
                sighting = self.devices.judge(approach, await uow.devices.knowledge(caller.user, approach))
                await self.login_events.log_wrong_code(uow, caller.user, PASSWORD_PROVIDER, sighting)
                raise CodeRefused
            await uow.sessions.prove(caller.session, caller.user, Proved(now))
            await uow.record(proof_renewed(caller.user, caller.session, ProofMethod.MAIL, actor))
            await uow.commit()
        self.metrics.reauthenticated(ProofMethod.MAIL.value)

    async def _require_no_other_way(self, caller: Caller) -> None:
        missing = await self.reauthentication.missing(caller, StepUp.SIGN_IN, since=self.system.clock.now())
        if missing is None or not missing.by_mail:
            raise Forbidden("You can prove who you are in another way", words="prove_otherwise")

    @staticmethod
    def _digest(caller: Caller, code: Secret, link: bytes, email: Email, key: bytes) -> bytes:
        return code_digest(code, link, FlowId(caller.session), email, key)

"""Proofs of newcomers: a mailed code shows an address of theirs, and the account is made. An account that is there is never connected by
its address: its owner signs in to it first, and connects the provider there.
"""

from typing import Final

from core.domain.email import Email
from core.domain.errors import RateLimited
from core.domain.identity.accounts import ACCOUNT_MAILS
from core.domain.identity.devices import Client
from core.domain.identity.flows import Flow, FlowOver
from core.domain.identity.mailed_tokens import CODE_DIGITS, CODE_LENGTH, MAILED_CODES, CodeRefused
from core.domain.identity.sign_in import account_key
from core.domain.identity.upstream.newcomers import MOST_CODES, MOST_TRIES, WaitingNewcomer, code_digest
from core.domain.identity.upstream.sign_in import NO_TOKENS, ServicePlace
from core.domain.secrets import Secret
from core.frozen import Frozen
from core.usecases.identity.mailed_codes import CODES
from core.usecases.identity.registering.mail_budgets import MailBudgets, asked_from
from core.usecases.identity.registering.registrations import Registrations
from core.usecases.identity.sign_in.proofs.proof import Arrival
from core.usecases.identity.sign_in.proofs.upstream import UpstreamProofs
from core.usecases.identity.upstream.journeys import Vouched
from core.usecases.identity.upstream.newcomers import NewcomerWords
from core.usecases.identity.upstream.providers import UpstreamProviders
from ports.identity.upstream.sign_in import UpstreamLookup
from ports.mail_templates import MailTemplates
from ports.rate_limits import SharedBuckets
from ports.server_secrets import ServerSecrets
from ports.system import System
from ports.unit_of_work import UnitOfWorkFactory

_MOST_CODES: Final = f"at most {MOST_CODES} codes"


class KnownNewcomer(Frozen):
    """A newcomer, as the pages show them."""

    provider: str
    """The provider's name for people."""
    stated: str
    """The address that the provider tells. Empty when it tells none."""
    sent_to: str
    """The address that the last code went to."""


class NewcomerProofs(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: UpstreamLookup
    words: NewcomerWords
    providers: UpstreamProviders
    proofs: UpstreamProofs
    registrations: Registrations
    budgets: MailBudgets
    buckets: SharedBuckets
    templates: MailTemplates
    server_secrets: ServerSecrets
    system: System

    async def get(self, flow: Flow) -> KnownNewcomer:
        """Raises `FlowOver` when nobody waits in the flow, `ProviderOff` and `UnknownProvider`."""
        newcomer = await self.words.get(flow.id)
        vouched = await self._vouched(newcomer, flow)
        return KnownNewcomer(vouched.upstream.name, vouched.asserted.email, newcomer.email)

    async def send_code(self, flow: Flow, email: Email, client: Client) -> None:
        """Mails a code to the address, whether or not an account has it. Raises `FlowOver`, `ProviderOff`, `BadRequest` and
        `RegistrationClosed` for an address that gets no account here, and `RateLimited` after too many mails.
        """
        newcomer = await self.words.get(flow.id)
        vouched = await self._vouched(newcomer, flow)
        await self.registrations.require(email, flow.wanted.organization)
        await self.budgets.count(asked_from(client.address, email, flow.wanted.organization), may_wait=False)
        # Of each mailbox, whether or not it has an account, as for the other mails that strangers may ask for.
        wait = await self.buckets.take(ACCOUNT_MAILS, f"newcomer_code:{account_key(email)}")
        if wait > 0:
            raise RateLimited(retry_after=wait, detail=ACCOUNT_MAILS.name)
        code: Secret = self.system.secrets.letters(CODE_DIGITS, CODE_LENGTH)
        key = await self.server_secrets.get(CODES)
        digest = code_digest(code, flow.id, newcomer.provider, email, key)
        mail = self.templates.mail(
            "newcomer_code",
            email.address,
            account=None,
            language=client.language,
            branding=flow.branding,
            code=code.reveal(),
            provider=vouched.upstream.name,
        )
        async with self.unit_of_work() as uow:
            if not await uow.newcomers.send(flow.id, email.address, digest, MOST_CODES, self.system.clock.now()):
                raise RateLimited(retry_after=60, detail=_MOST_CODES)
            await uow.jobs.add(mail.as_job())
            await uow.commit()

    async def make(self, flow: Flow, code: Secret, client: Client) -> Arrival:
        """Makes the account and its proof. Raises `CodeRefused`, `RateLimited`, `FlowOver`, `UpstreamRefused` also when an account has the
        address, `ProviderOff`, and `ProviderRequired`.
        """
        newcomer = await self.words.get(flow.id)
        if not newcomer.email or newcomer.tries >= MOST_TRIES:
            # Before the bucket of the address, which a stranger could use up with codes that count no more.
            raise CodeRefused
        wait = await self.buckets.take(MAILED_CODES, account_key(Email(newcomer.email)))
        if wait > 0:
            raise RateLimited(retry_after=wait, detail=MAILED_CODES.name)
        key = await self.server_secrets.get(CODES)
        async with self.unit_of_work() as uow:
            tried = await uow.newcomers.attempt(flow.id, self.system.clock.now())
            await uow.commit()
        if tried is None:
            raise FlowOver
        if not tried.may_try or not tried.is_code(code, key):
            raise CodeRefused
        return await self.proofs.make_of_newcomer(flow, await self._vouched(tried, flow), Email(tried.email), client)

    async def _vouched(self, newcomer: WaitingNewcomer, flow: Flow) -> Vouched:
        """The provider's word, as long as the provider is on."""
        way = await self.lookup.way(newcomer.provider, ServicePlace(organization=flow.wanted.organization, service=flow.service))
        return Vouched(self.providers.found(newcomer.provider, way), self.words.opened(newcomer), NO_TOKENS)

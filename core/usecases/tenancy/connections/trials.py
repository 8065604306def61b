"""Tests of an enterprise connection: they take the way of a sign-in, sign nobody in, and end on a page with every check."""

import json
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlencode

from core.domain.errors import found
from core.domain.identifiers import ConnectionExchangeId, ConnectionTestId, OrganizationId, UpstreamProviderId
from core.domain.identity.flows import FlowOver
from core.domain.identity.upstream.claims import Asserted, NotVouched
from core.domain.identity.upstream.connection_tests import (
    CheckState,
    ConnectionExchange,
    ConnectionExchangeKind,
    ConnectionTest,
    Examination,
    NewConnectionTest,
    TestedCheck,
    TestResult,
    TestStarter,
    restored_result,
    result_context,
    result_of,
)
from core.domain.identity.upstream.connections import ProviderKind
from core.domain.identity.upstream.directories import RESULT_LASTS, TEST_LASTS, ConnectedDirectory, surveyed_attributes
from core.domain.identity.upstream.ldap.answers import LdapFailed, LdapFault, LdapSite, LdapStep, ldap_site
from core.domain.identity.upstream.ldap.surveys import lines_of_failure, lines_of_survey
from core.domain.identity.upstream.providers import ClientAtProvider, ProviderEndpoints, SamlAtProvider, Upstream
from core.domain.identity.upstream.sign_in import OAuthError, ProviderRequest, derived, is_code
from core.domain.record.events import SYSTEM
from core.domain.saml import KeyPair
from core.domain.secrets import Secret, Token
from core.domain.tenancy.members import Member
from core.domain.tenancy.upstream_providers import UpstreamProvider, provider_tested, require_complete, tested
from core.frozen import Frozen
from core.usecases.identity.upstream.journeys import STATES, Journeys
from core.usecases.tenancy.upstream_providers import held
from ports.crypto import KeyRing, ServerSecrets
from ports.identity.upstream import ConnectionLookup, ConnectionRecorder, LdapDirectories, UpstreamProtocols
from ports.metrics import Metrics
from ports.system import System
from ports.tenancy.connections import TestStarters
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class Surveyed(Frozen):
    lines: Sequence[TestedCheck]
    lockout: tuple[int, int] | None = None
    """The threshold and the seconds, if they could be read."""

    @property
    def result(self) -> TestResult:
        return TestResult(checks=self.lines)


class DirectorySurveys(Frozen):
    lookup: ConnectionLookup
    directories: LdapDirectories
    keyring: KeyRing

    def site(self, directory: ConnectedDirectory) -> LdapSite:
        """Raises `LdapFailed` while there is no bind password for these hosts, and `NotFound` for another kind."""
        settings, client = found(directory.ldap, "The provider is not of the kind ldap"), directory.client
        opened = self.keyring.open(client.sealed_secret, client.context) if client.sealed_secret else b""
        site = ldap_site(settings, Secret(opened.decode()))
        if not site.password.reveal():
            raise LdapFailed(LdapStep.BIND, LdapFault.NO_PASSWORD)
        return site

    async def made(self, directory: ConnectedDirectory) -> Surveyed:
        """Every line but the sign-in."""
        settings = found(directory.ldap, "The provider is not of the kind ldap")
        domains = await self.lookup.proved_domains(directory.organization)
        try:
            survey = await self.directories.survey(directory.id, self.site(directory), surveyed_attributes(settings))
        except LdapFailed as failed:
            return Surveyed(lines_of_failure(settings, failed))
        read = survey.lockout
        return Surveyed(lines_of_survey(settings, survey, domains), None if read is None else (read.threshold, read.seconds))


TEST_PAGE: Final = "/ui/connections/test"


class StartedTest(Frozen):
    id: ConnectionTestId
    url: str
    """Where a browser goes with it."""


class ConnectionTests(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: ConnectionLookup
    starters: TestStarters
    protocols: UpstreamProtocols
    journeys: Journeys
    surveys: DirectorySurveys
    recorder: ConnectionRecorder
    keyring: KeyRing
    server_secrets: ServerSecrets
    metrics: Metrics
    system: System
    base_url: str

    async def start(self, member: Member, provider: UpstreamProviderId) -> StartedTest:
        """Starts a test of the settings as they are now; a former one that nobody has finished ends. Raises `NotFound`, `Forbidden`, and
        `BadRequest` while settings are missing.
        """
        async with self.unit_of_work() as uow:
            _, tried = await held(uow, member, provider)
            starter = TestStarter(session=None if member.signed_in is None else member.signed_in.session, key=member.key_id)
            started = await self.add(uow, tried, starter)
            await uow.commit()
        return started

    async def add(self, uow: UnitOfWork, provider: UpstreamProvider, starter: TestStarter) -> StartedTest:
        """Starts a test in the caller's unit of work, which holds the provider."""
        require_complete(provider)
        state, now = self.system.secrets.token(), self.system.clock.now()
        test = NewConnectionTest(
            id=ConnectionTestId(self.system.ids.new()),
            provider=provider.id,
            digest=state.digest(),
            settings_digest=provider.digest,
            starter=starter,
            created_at=now,
            expires_at=now + TEST_LASTS,
        )
        await uow.connection_tests.add(test)
        return StartedTest(test.id, self.page(state))

    def page(self, state: Token) -> str:
        """The address of a test: the page with its button, and afterwards the page with its result."""
        return f"{self.base_url}{TEST_PAGE}?{urlencode({'state': state.reveal()})}"

    async def find(self, state: Token) -> ConnectionTest:
        """Raises `FlowOver`."""
        found = await self.lookup.test(state.digest())
        if found is None or not await self.starters.may_go_on(found.id):
            raise FlowOver
        return found

    def result(self, test: ConnectionTest, browser: Token | None) -> TestResult | None:
        """Returns what was found, for the browser that made the test. None while the test is not finished. Raises `FlowOver`."""
        if test.sealed_result is None:
            return None
        if browser is None or not test.is_of(browser.digest()):
            raise FlowOver
        return restored_result(json.loads(self.keyring.open(test.sealed_result, result_context(test.id))))

    async def leave(self, state: Token, browser: Token) -> str:
        """Returns the address at the provider. Raises `FlowOver` when the test is over, or another browser's, and `OAuthError`."""
        test = await self.lookup.begin_test(state.digest(), browser.digest(), self.system.clock.now())
        directory = None if test is None else await self.lookup.directory(test.provider)
        if test is None or directory is None or not await self.starters.may_go_on(test.id):
            raise FlowOver
        if directory.kind is ProviderKind.LDAP:
            await self.require_unchanged(test)
            surveyed = await self.surveys.made(directory)
            if not surveyed.result.succeeded:
                await self._finish(test, state, surveyed.result)
                return self.page(state)
        try:
            return await self.protocols.authorization_url(self._upstream(directory), await self._asked(directory, state))
        except OAuthError as refusal:
            await self._finish(test, state, _failed("answer", str(refusal.detail or refusal.message), _REACH))
            return self.page(state)

    async def come_back(self, provider: str, state: Token, browser: Token | None, code: Token, error: str) -> str | None:
        """Takes what a provider of OpenID Connect has sent the browser back with. Returns the address of the page with the result, or None
        if this state belongs to no test.
        """
        test = await self.lookup.test(state.digest())
        if test is None or str(test.provider) != provider or browser is None or not test.is_of(browser.digest()):
            return None
        if not await self.starters.may_go_on(test.id):
            # The code goes to nobody. The page says that the test is over.
            return self.page(state)
        directory = await self.lookup.directory(test.provider)
        if test.finished_at is None and directory is not None and directory.kind is ProviderKind.OIDC:
            await self._finish(test, state, await self._redeemed(directory, state, code, error))
        return self.page(state)

    async def finish_by_examination(self, state: Token, found: Examination) -> None:
        """Takes what a directory by SAML has answered."""
        test = await self.lookup.test(state.digest())
        if test is not None:
            await self._finish(test, state, result_of(found), records=False)

    async def require_unchanged(self, test: ConnectionTest) -> None:
        """The bind password of these settings goes nowhere after somebody else has changed them, and after the test's starter has lost the
        right to it. Raises `FlowOver`.
        """
        if not await self.starters.may_go_on(test.id):
            raise FlowOver
        async with self.unit_of_work() as uow:
            await uow.organizations.hold(OrganizationId(test.organization))
            provider = await uow.upstream_providers.hold(test.organization, test.provider)
            if provider is None or provider.digest != test.settings_digest:
                raise FlowOver

    async def finish_by_survey(self, test: ConnectionTest, state: Token, surveyed: Surveyed) -> None:
        """Takes what a directory by LDAP has shown."""
        await self._finish(test, state, surveyed.result, lockout=surveyed.lockout)

    async def _redeemed(self, directory: ConnectedDirectory, state: Token, code: Token, error: str) -> TestResult:
        if error:
            return _failed("answer", "The provider sent an error instead of a code.", _ALLOW, came=error)
        if not is_code(code):
            return _failed("answer", "The provider sent no code.", _ALLOW)
        try:
            asserted, _ = await self.protocols.redeem(self._upstream(directory), code, await self._asked(directory, state))
        except NotVouched as refusal:
            return _failed("token", f"The response does not identify a person: {refusal}.", _CLIENT)
        except OAuthError as refusal:
            return _failed("answer", str(refusal.detail or refusal.message), _REACH)
        return _passed(asserted)

    async def _asked(self, directory: ConnectedDirectory, state: Token) -> ProviderRequest:
        nonce, verifier = derived(state, await self.server_secrets.get(STATES))
        return ProviderRequest(redirect_uri=self.journeys.callback(str(directory.id)), state=state, nonce=nonce, verifier=verifier)

    def _upstream(self, directory: ConnectedDirectory) -> Upstream:
        client = directory.client
        secret = Secret(self.keyring.open(client.sealed_secret, client.context).decode())
        return Upstream(
            key=str(directory.id),
            name=directory.name,
            endpoints=ProviderEndpoints(issuer=directory.issuer),
            client=ClientAtProvider(client.client_id, secret),
            scopes=directory.scopes,
            organization=directory.organization,
            profile_mapping=directory.profile_mapping,
            ldap=None if directory.ldap is None else ldap_site(directory.ldap, secret),
            saml=None
            if directory.settings is None or directory.key is None
            else SamlAtProvider(directory.settings, KeyPair(directory.key.certificate, secret)),
        )

    async def _finish(
        self, test: ConnectionTest, state: Token, result: TestResult, *, records: bool = True, lockout: tuple[int, int] | None = None
    ) -> None:
        """Stores the result, and that these settings were tested if every check has passed. A test whose starter has lost the right to it
        finds nothing.
        """
        if not await self.starters.may_go_on(test.id):
            return
        now = self.system.clock.now()
        sealed = self.keyring.seal(json.dumps(result.stored()).encode(), result_context(test.id))
        async with self.unit_of_work() as uow:
            if await uow.organizations.hold(OrganizationId(test.organization)) is None:
                return
            provider = await uow.upstream_providers.hold(test.organization, test.provider)
            finished = await uow.connection_tests.finish(
                state.digest(), succeeded=result.succeeded, sealed_result=sealed, now=now, expires_at=now + RESULT_LASTS
            )
            if provider is None or not finished:
                return
            if result.succeeded:
                await uow.upstream_providers.save(tested(provider, test.settings_digest, now, lockout), None)
            await uow.record(provider_tested(provider, SYSTEM, succeeded=result.succeeded))
            await uow.commit()
        if records:
            self._record(test, result)

    def _record(self, test: ConnectionTest, result: TestResult) -> None:
        failed = next((one for one in result.checks if one.state is CheckState.FAILED), None)
        self.recorder.record(
            ConnectionExchange(
                id=ConnectionExchangeId(self.system.ids.new()),
                provider=test.provider,
                kind=ConnectionExchangeKind.TEST,
                succeeded=failed is None,
                fault="" if failed is None else failed.name,
                reason="" if failed is None else failed.told,
                advice="" if failed is None else failed.mend,
                created_at=self.system.clock.now(),
            )
        )
        self.metrics.connection_exchanged(ConnectionExchangeKind.TEST.value, succeeded=failed is None)


_REACH: Final = "Make sure that Postern can reach the issuer's metadata and endpoints, and that the client ID and secret are correct."
_ALLOW: Final = "Allow the redirect URI of this identity provider for the client, and allow the person to use the client."
_SAYS_HOW: Final = "The identity provider states how the person signed in (amr, acr). Values that mean MFA can satisfy your MFA rule."
_SAYS_NOTHING: Final = "The identity provider does not state how the person signed in, so its MFA cannot be accepted."
_CLIENT: Final = "Compare issuer and client id with those at the provider."


def _failed(name: str, words: str, mend: str, came: str = "") -> TestResult:
    return TestResult(checks=[TestedCheck(name=name, state=CheckState.FAILED, told=words, came=came[:200], mend=mend)])


def _passed(asserted: Asserted) -> TestResult:
    """What an ID token that is right has told. An address that is missing fails the test: nobody new could sign in."""
    has_address = asserted.email != "" and asserted.email_is_verified
    return TestResult(
        checks=[
            TestedCheck(name="answer", state=CheckState.PASSED, told="The identity provider sent a code and exchanged it for tokens."),
            TestedCheck(name="token", state=CheckState.PASSED, told="Issuer, audience, nonce, times and signature are right."),
            TestedCheck(
                name="subject", state=CheckState.PASSED, told="The identity provider identifies the person.", came=asserted.subject
            ),
            TestedCheck(
                name="address",
                state=CheckState.PASSED if has_address else CheckState.FAILED,
                told="The identity provider sent a verified email address."
                if has_address
                else "The identity provider sent no verified email address.",
                came=asserted.email,
                mend="" if has_address else "Configure the identity provider to send email, and email_verified with the value true.",
            ),
            TestedCheck(
                name="authentication",
                state=CheckState.PASSED,
                told=_SAYS_HOW if asserted.methods else _SAYS_NOTHING,
                came=", ".join(asserted.methods)[:200],
            ),
        ]
    )

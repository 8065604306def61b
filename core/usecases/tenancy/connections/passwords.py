"""Signs in users with the password of an LDAP directory."""

import json
from datetime import timedelta
from typing import Final, NoReturn
from urllib.parse import urlencode
from uuid import uuid5

from core.domain.errors import BadRequest, RateLimited
from core.domain.identifiers import ConnectionAnswerId, ConnectionExchangeId, UpstreamProviderId
from core.domain.identity.devices import Client
from core.domain.identity.flows import FlowOver
from core.domain.identity.login_events import LoginFailure
from core.domain.identity.upstream.claims import Asserted
from core.domain.identity.upstream.connection_tests import ConnectionExchange, ConnectionExchangeKind, TestedCheck
from core.domain.identity.upstream.directories import (
    WAITS,
    AskedPassword,
    ConnectedDirectory,
    NewAnswer,
    answer_context,
    asserted_by_entry,
    counted_person,
    read_attributes,
    request_id,
    stored_word,
)
from core.domain.identity.upstream.ldap.answers import (
    BindOutcome,
    LdapAnswer,
    LdapEntry,
    LdapFailed,
    LdapFault,
    LdapSite,
    LdapStep,
    NotRecognised,
    shown,
    subject_of,
    usable_name,
    usable_password,
)
from core.domain.identity.upstream.ldap.settings import ldap_issuer
from core.domain.identity.upstream.ldap.surveys import line_of_sign_in, words_of
from core.domain.identity.upstream.providers import OWN_PROVIDER, ProviderEndpoints, ProviderOff, ProviderSite
from core.domain.identity.upstream.sign_in import ProviderAway, derived
from core.domain.secrets import Secret, Token
from core.frozen import Frozen, replace
from core.usecases.identity.devices import Devices
from core.usecases.identity.login_events import LoginEvents
from core.usecases.identity.upstream.journeys import STATES
from core.usecases.identity.upstream.providers import ProviderOutages
from core.usecases.tenancy.connections.trials import ConnectionTests, DirectorySurveys
from ports.crypto import KeyRing, ServerSecrets
from ports.identity.upstream import ConnectionLookup, ConnectionRecorder, DirectoryFailureStore, LdapDirectories, LdapFound, UpstreamLookup
from ports.metrics import Metrics
from ports.system import System

_FAILURES: Final = {
    BindOutcome.WRONG: LoginFailure.WRONG_PASSWORD,
    BindOutcome.LOCKED: LoginFailure.THROTTLED,
}


def failure_of(outcome: BindOutcome) -> LoginFailure:
    """What else the directory says is its own, and stands in the recorder."""
    return _FAILURES.get(outcome, LoginFailure.NOT_VOUCHED)


class FailedDirectorySignIns(Frozen):
    """Logs failed sign-ins. The recorder has them, too, for the administrator of the connection."""

    lookup: UpstreamLookup
    devices: Devices
    login_events: LoginEvents
    system: System

    async def log(self, asked: AskedPassword, subject: str, failure: LoginFailure, client: Client) -> None:
        """Names the account that is connected to this person of the directory. For somebody unknown, it looks for nobody, so that both take
        the same time. Who sees it: see `audience`.
        """
        directory = asked.directory
        approach = await self.devices.observe(client)
        looked_for = Asserted(ldap_issuer(directory.id), subject or self.system.ids.new().hex)
        met = await self.lookup.meet(
            str(directory.id), looked_for, None, approach, organization=directory.organization, application=asked.application
        )
        await self.login_events.log_failure(failure, OWN_PROVIDER, met.connected, approach, asked.application)


_LONGEST_REASON: Final = 500
# Each is counted in one entry of the recorder, since anybody may bring it about.
_REASONS: Final = {
    BindOutcome.WRONG: ("The directory refuses the password.", ""),
    BindOutcome.UNKNOWN: ("The directory does not know the account.", "Compare base and filter with where people are."),
    BindOutcome.LOCKED: ("The directory has locked the account.", "Unlock it there, and find the source of the wrong passwords."),
    BindOutcome.REFUSED: ("The directory refuses the account for another reason.", "Check the directory's log."),
    BindOutcome.OUTSIDE_HOURS: (
        "The directory does not allow the account to sign in at this time.",
        "Change the account's sign-in hours there.",
    ),
    BindOutcome.OTHER_WORKSTATION: (
        "The directory allows the account to sign in at other machines only.",
        "Add this server to the account's machines there.",
    ),
    BindOutcome.PASSWORD_EXPIRED: ("The password has expired.", "The person changes it at the directory."),
    BindOutcome.DISABLED: ("The account is disabled.", "Enable it there if the person should be able to sign in."),
    BindOutcome.ACCOUNT_EXPIRED: ("The account has expired.", "Extend it there if the person should be able to sign in."),
    BindOutcome.MUST_CHANGE: ("The password must be changed first.", "The person changes it at the directory."),
}


class DirectoryPasswordRefused(BadRequest):
    """The directory does not let the person in. The page says so beside the form."""

    text = "The directory did not accept this name and password"

    def __init__(self, outcome: BindOutcome) -> None:
        said = outcome if outcome.is_shown else BindOutcome.WRONG
        super().__init__(words=f"ldap_{said.value}")


class DirectoryUndecided(BadRequest):
    """The directory knows several people by the name, or nobody for good. Its administrator reads who, by the reference."""

    text = "The directory cannot identify this person"

    def __init__(self, reference: str) -> None:
        super().__init__(words="directory_refused", values={"reference": reference})


class _Person(Frozen):
    entry: LdapEntry | None
    subject: str
    host: str
    base: str


def _last(person: _Person, name: str) -> str:
    """Whom the counted entry is about, as far as one entry can tell: an administrator asks whose password is typed wrong."""
    return f"Last: {name if person.entry is None else person.entry.dn[:300]}."


def _require_judged(answer: LdapAnswer) -> LdapAnswer:
    """Raises `LdapFailed` unless the directory has judged the password."""
    if answer.is_away:
        raise LdapFailed(LdapStep.BIND, LdapFault.BUSY if answer.is_busy else LdapFault.TOO_SLOW, answer.said)
    return answer


class DirectoryPasswords(Frozen):
    """The password lives in one call: it goes to the directory once, in a connection of its own, and nowhere else. The directory's result
    is stored encrypted for the browser, which returns with a code, as from any other provider.
    """

    lookup: ConnectionLookup
    tests: ConnectionTests
    surveys: DirectorySurveys
    directories: LdapDirectories
    failures: DirectoryFailureStore
    outages: ProviderOutages
    failed_sign_ins: FailedDirectorySignIns
    recorder: ConnectionRecorder
    keyring: KeyRing
    server_secrets: ServerSecrets
    metrics: Metrics
    system: System
    base_url: str

    async def find(self, provider: UpstreamProviderId, state: Token, browser: Token | None) -> AskedPassword:
        """The directory whose page this browser opens. Raises `FlowOver` unless this browser has left for it, and `ProviderOff` when it is
        turned off, or its organization has proved no domain: then nobody could sign in, so nobody types anything but for a test.
        """
        asked = None if browser is None else await self.lookup.asked_password(provider, state.digest(), browser.digest())
        if asked is None or not (asked.is_asked or asked.test) or not asked.directory.is_active_organization:
            raise FlowOver
        if not asked.test and not asked.directory.enabled:
            raise ProviderOff(detail="the identity provider is not active, or turned off")
        if not asked.test and not asked.domains:
            raise ProviderOff(detail="the organization has no verified domain")
        return asked

    async def enter(
        self, provider: UpstreamProviderId, state: Token, browser: Token | None, name: str, password: Secret, *, client: Client
    ) -> str:
        """Asks the directory. Returns where the browser goes on. Raises the errors of `find`, `DirectoryPasswordRefused`,
        `DirectoryUndecided`, `RateLimited` before the directory would lock the person, and `ProviderAway`.
        """
        asked = await self.find(provider, state, browser)
        if asked.test:
            return await self._tried(asked, state, name, password)
        directory, typed = asked.directory, usable_name(name)
        if typed is None or not usable_password(password.reveal()):
            raise DirectoryPasswordRefused(BindOutcome.WRONG)
        try:
            site = self.surveys.site(directory)
            person = await self._person(directory, site, await self._found(directory, site, typed))
        except LdapFailed as failed:
            raise await self._away(directory, failed) from None
        try:
            answer = await self._judged(directory, site, person, typed, password)
        except LdapFailed as failed:
            raise await self._away(directory, failed) from None
        except RateLimited:
            await self.failed_sign_ins.log(asked, person.subject, LoginFailure.THROTTLED, client)
            raise
        outcome = answer.outcome if person.entry is not None else BindOutcome.UNKNOWN
        if person.entry is None or outcome is not BindOutcome.RIGHT:
            reason, advice = _REASONS[outcome]
            self._record(directory, outcome.value, f"{reason} {_last(person, typed)} {answer.said}".strip(), advice)
            failure = LoginFailure.UNKNOWN_ACCOUNT if person.entry is None else failure_of(outcome)
            await self.failed_sign_ins.log(asked, person.subject, failure, client)
            raise DirectoryPasswordRefused(outcome)
        return await self._kept(directory, site, state, person.entry)

    async def _found(self, directory: ConnectedDirectory, site: LdapSite, name: str) -> LdapFound:
        return await self.directories.search(site, name, read_attributes(site.settings, directory.profile_mapping))

    async def _person(self, directory: ConnectedDirectory, site: LdapSite, found: LdapFound) -> _Person:
        if not found.entries:
            return _Person(None, "", found.host, found.base)
        if len(found.entries) > 1 or found.is_more:
            both = " and ".join(one.dn[:200] for one in found.entries)
            self._undecided(
                directory,
                "several",
                f"Several people have, or could have, this sign-in name: {both}.",
                "Make the sign-in names unique there.",
            )
        (entry,) = found.entries
        try:
            if not entry.dn:
                raise NotRecognised("no name")  # noqa: TRY301 - one way out for both
            return _Person(entry, subject_of(entry, site.settings.identity_attribute), found.host, found.base)
        except NotRecognised as refusal:
            attribute = site.settings.identity_attribute.value
            self._undecided(
                directory,
                "no_identity",
                f"{entry.dn[:300]} has {refusal} in {attribute}.",
                "Allow the bind account to read this attribute.",
            )

    def _undecided(self, directory: ConnectedDirectory, fault: str, reason: str, advice: str) -> NoReturn:
        raise DirectoryUndecided(self._record(directory, fault, reason, advice))

    async def _judged(self, directory: ConnectedDirectory, site: LdapSite, person: _Person, name: str, password: Secret) -> LdapAnswer:
        """The directory's answer to the password. It gets none that could lock the person. For somebody unknown, it is asked about a name
        that nobody has, so that both take the same time.
        """
        settings, provider = site.settings, directory.id
        counted = counted_person(provider, subject=person.subject, name=name)
        window, now = timedelta(seconds=settings.window_seconds), self.system.clock.now()
        if not await self.failures.begin(counted, provider, most=settings.most_failures, now=now, until=now + window):
            reason = f"Postern stopped before the directory locks the account. {_last(person, name)}"
            self._record(directory, "throttled", reason, "Find the source of the wrong passwords.")
            raise RateLimited(retry_after=settings.window_seconds)
        dn = f"uid={self.system.ids.new().hex},{person.base}" if person.entry is None else person.entry.dn
        # Whoever hangs up meanwhile has sent a password that the directory may judge. A hiccup of the directory judges none.
        was_wrong, is_right = True, False
        try:
            answer = _require_judged(await self.directories.prove(site, person.host, dn, password))
            is_right = person.entry is not None and answer.outcome is BindOutcome.RIGHT
            was_wrong = not is_right and not answer.outcome.is_shown
        except LdapFailed as failed:
            # It has answered the search, so that it is there.
            failed.has_answered, was_wrong = True, False
            raise
        finally:
            until = self.system.clock.now() + window
            await self.failures.end(counted, was_wrong=was_wrong, was_right=is_right, until=until)
        return answer

    async def _tried(self, asked: AskedPassword, state: Token, name: str, password: Secret) -> str:
        """A test: every line once more, and the sign-in of a person. It signs nobody in here."""
        directory, test = asked.directory, await self.tests.find(state)
        await self.tests.require_unchanged(test)
        surveyed = await self.surveys.made(directory)
        if surveyed.result.succeeded:
            surveyed = replace(surveyed, lines=[*surveyed.lines, await self._tried_by(directory, name, password)])
        await self.tests.finish_by_survey(test, state, surveyed)
        return self.tests.page(state)

    async def _tried_by(self, directory: ConnectedDirectory, name: str, password: Secret) -> TestedCheck:
        typed = usable_name(name)
        if typed is None or not usable_password(password.reveal()):
            return line_of_sign_in(BindOutcome.WRONG)
        try:
            site = self.surveys.site(directory)
            found = await self._found(directory, site, typed)
            number = max(len(found.entries), 2 if found.is_more else 0)
            if number != 1:
                return line_of_sign_in(BindOutcome.UNKNOWN, found=number, dns="; ".join(one.dn for one in found.entries))
            person = await self._person(directory, site, found)
            answer = await self._judged(directory, site, person, typed, password)
        except LdapFailed as failed:
            return line_of_sign_in(BindOutcome.REFUSED, words_of(failed.fault)[0])
        return line_of_sign_in(answer.outcome, answer.said, dns=found.entries[0].dn)

    async def _kept(self, directory: ConnectedDirectory, site: LdapSite, state: Token, entry: LdapEntry) -> str:
        """Stores the directory's word for the browser. Returns the address that it comes back by."""
        now = self.system.clock.now()
        word = asserted_by_entry(directory.id, site.settings, directory.profile_mapping, entry, now)
        nonce, _ = derived(state, await self.server_secrets.get(STATES))
        code, answer = self.system.secrets.token(), ConnectionAnswerId(self.system.ids.new())
        content = json.dumps({"request": request_id(nonce), "word": stored_word(word)}).encode()
        await self.lookup.keep(
            NewAnswer(
                id=answer,
                provider=directory.id,
                code_digest=code.digest(),
                assertion_digest=None,
                sealed=self.keyring.seal(content, answer_context(answer)),
                waits_until=now + WAITS,
                expires_at=now + WAITS,
            )
        )
        self._record(directory)
        return f"{self.base_url}/auth/{directory.id}/callback?{urlencode({'state': state.reveal(), 'code': code.reveal()})}"

    async def _away(self, directory: ConnectedDirectory, failed: LdapFailed) -> ProviderAway:
        """Notes an outage, if it is one. However many people meet it, the recorder has one entry of it."""
        reason, advice = words_of(failed.fault)
        said = " ".join(one for one in (failed.host, failed.came) if one)
        fault = failed.fault.value
        reference = self._record(directory, fault, f"{reason} {said}".strip(), advice)
        away = ProviderAway(detail=f"{fault} {said}")
        away.words, away.values = "directory_away", {"reference": reference}
        if failed.is_outage:
            site = ProviderSite(
                key=str(directory.id), endpoints=ProviderEndpoints(issuer=directory.issuer), organization=directory.organization
            )
            await self.outages.note(site)
        return away

    def _record(self, directory: ConnectedDirectory, fault: str = "", reason: str = "", advice: str = "") -> str:
        """Anybody can fail, so all failures of one kind are counted in one entry."""
        now = self.system.clock.now()
        identifier = uuid5(directory.id, f"ldap {fault}") if fault else self.system.ids.new()
        exchange = ConnectionExchange(
            id=ConnectionExchangeId(identifier),
            provider=directory.id,
            kind=ConnectionExchangeKind.SIGN_IN,
            succeeded=not fault,
            fault=fault,
            # The directory, and whoever types, have written parts of it.
            reason=shown(reason, _LONGEST_REASON),
            advice=advice,
            created_at=now,
            last_at=now if fault else None,
        )
        self.recorder.record(exchange)
        self.metrics.connection_exchanged(exchange.kind.value, succeeded=exchange.succeeded)
        return exchange.reference

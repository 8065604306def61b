"""Implements `ports.identity.upstream.LdapDirectories`. The connections come from the guarded dialer, as those to organizations' mail
servers do.
"""

import ssl
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import trio

from adapters.ldap import messages
from adapters.ldap.connection import Dial, LdapConnection, dialled, in_tls, refused
from adapters.ldap.messages import LdapResult, LdapResultCode, MalformedMessage, ReceivedEntry, SearchScope
from core.domain.identifiers import UpstreamProviderId
from core.domain.identity.upstream.ldap.answers import LdapAnswer, LdapEntry, LdapFailed, LdapFault, LdapSite, LdapStep
from core.domain.identity.upstream.ldap.filters import PresentFilter, read_filter
from core.domain.identity.upstream.ldap.settings import LdapHost, LdapScope, LdapSettings
from core.domain.identity.upstream.ldap.surveys import MOST_SURVEYED, LdapLockout, LdapSurvey, strictest
from core.domain.secrets import Secret
from ports.identity.upstream import LdapFound

# In seconds: until one of the hosts has let us in, for one conversation, and for all that a test asks.
REACHED_WITHIN: Final = 5.0
# Whoever waits for a look waits four seconds in all.
LOOKED_WITHIN: Final = 3.5
TALKED_WITHIN: Final = 5.0
_SURVEYED_WITHIN: Final = 20.0
_PAGE: Final = 200
SCOPES: Final = {LdapScope.SUBTREE: SearchScope.SUBTREE, LdapScope.ONE_LEVEL: SearchScope.ONE}
ANYBODY: Final = PresentFilter("objectClass")
_TICKS_A_SECOND: Final = 10_000_000
_MOST_POLICIES: Final = 100
_MOST_CONTEXTS: Final = 32


class TrioLdapDirectories:
    def __init__(self, dial: Dial, trust: Callable[[], Awaitable[ssl.SSLContext]], *, reached_within: float = REACHED_WITHIN) -> None:
        self._dial = dial
        self._trust = trust
        self._reached_within = reached_within
        self._surveyed = set[UpstreamProviderId]()
        """A survey holds many entries, so a connection has one at a time."""
        self._contexts: dict[str, ssl.SSLContext] = {}
        """By the authorities that they trust: reading certificates takes a good part of a sign-in."""

    async def look(self, site: LdapSite) -> None:
        connection, _ = await self._reached(site.settings, min(self._reached_within, LOOKED_WITHIN))
        async with connection:
            pass

    async def search(self, site: LdapSite, name: str, attributes: Sequence[str]) -> LdapFound:
        connection, host = await self.let_in(site)
        async with connection:
            try:
                with in_time(LdapStep.FILTER, TALKED_WITHIN, host.name):
                    base = await base_of(connection, site.settings)
                    found = await connection.search(
                        base,
                        SCOPES[site.settings.search_scope],
                        site.settings.looks_for(name),
                        attributes,
                        most=2,
                        step=LdapStep.FILTER,
                    )
            except LdapFailed as failed:
                failed.has_answered = connection.has_found
                raise
        return LdapFound([entry_of(one) for one in found.entries], _url(site.settings, host), base, found.is_more)

    async def prove(self, site: LdapSite, host: str, dn: str, password: Secret) -> LdapAnswer:
        if not dn or not password.reveal():
            return LdapAnswer(code=LdapResultCode.INVALID_CREDENTIALS)
        place = next(one for one in site.settings.places if _url(site.settings, one) == host)
        with in_time(LdapStep.BIND, self._reached_within, place.name):
            async with await self._opened(site.settings, place) as connection:
                return _answer(await connection.bind(dn, password.reveal().encode()))

    async def survey(self, provider: UpstreamProviderId, site: LdapSite, attributes: Sequence[str]) -> LdapSurvey:
        if provider in self._surveyed:
            raise LdapFailed(LdapStep.CONNECTION, LdapFault.SURVEYED)
        self._surveyed.add(provider)
        try:
            return await self._survey(site, attributes)
        finally:
            self._surveyed.discard(provider)

    async def _survey(self, site: LdapSite, attributes: Sequence[str]) -> LdapSurvey:
        settings, asked = site.settings, []
        for host in settings.places[1:]:
            with in_time(LdapStep.CONNECTION, self._reached_within, host.name):
                async with await self._opened(settings, host) as connection:
                    await _bound(connection, site, host)
            asked.append(_url(settings, host))
        first = settings.places[0]
        with in_time(LdapStep.FILTER, _SURVEYED_WITHIN, first.name):
            with in_time(LdapStep.CONNECTION, self._reached_within, first.name):
                opened = await self._opened(settings, first)
            async with opened as connection:
                await _bound(connection, site, first)
                base = await base_of(connection, settings)
                found = await connection.search(
                    base,
                    SCOPES[settings.search_scope],
                    read_filter(settings.person_filter),
                    attributes,
                    most=MOST_SURVEYED,
                    page=_PAGE,
                    step=LdapStep.FILTER,
                )
                lockout = await _lockout(connection, await root_of(connection, base))
        people = [entry_of(one) for one in found.entries]
        return LdapSurvey(hosts=[_url(settings, first), *asked], base=base, people=people, are_more=found.is_more, lockout=lockout)

    async def let_in(self, site: LdapSite) -> tuple[LdapConnection, LdapHost]:
        """A connection as the account that looks people up, at the first host that answers. The caller closes it. Raises `LdapFailed`."""
        connection, host = await self._reached(site.settings, self._reached_within)
        try:
            with in_time(LdapStep.BIND, TALKED_WITHIN, host.name):
                await _bound(connection, site, host)
        except BaseException:
            await connection.abandon()
            raise
        return connection, host

    async def _reached(self, settings: LdapSettings, within: float) -> tuple[LdapConnection, LdapHost]:
        """A connection to the first host that answers. The others get what is left of the time."""
        deadline, hosts = trio.current_time() + within, settings.places
        for place, host in enumerate(hosts):
            left = max(deadline - trio.current_time(), 0.0) / (len(hosts) - place)
            try:
                with in_time(LdapStep.CONNECTION, left, host.name):
                    return await self._opened(settings, host), host
            except LdapFailed:
                if place == len(hosts) - 1:
                    raise
        raise LdapFailed(LdapStep.NAME, LdapFault.NO_NAME)

    async def _opened(self, settings: LdapSettings, host: LdapHost) -> LdapConnection:
        context = await self._context(settings)
        stream: trio.abc.Stream = await dialled(self._dial, host)
        try:
            if not settings.start_tls:
                return LdapConnection(await in_tls(stream, host, context))
            connection = LdapConnection(stream)
            await connection.start_tls(host, context)
        except BaseException as error:
            await trio.aclose_forcefully(stream)
            if isinstance(error, LdapFailed):
                error.host = host.name
            raise
        return connection

    async def _context(self, settings: LdapSettings) -> ssl.SSLContext:
        if not settings.ca_certificates:
            return await self._trust()
        made = self._contexts.get(settings.ca_certificates)
        if made is None:
            made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            made.minimum_version = ssl.TLSVersion.TLSv1_2
            try:
                made.load_verify_locations(cadata=settings.ca_certificates)
            except (ssl.SSLError, ValueError):
                raise LdapFailed(LdapStep.CERTIFICATE, LdapFault.NO_AUTHORITY) from None
            if len(self._contexts) >= _MOST_CONTEXTS:
                self._contexts.clear()
            self._contexts[settings.ca_certificates] = made
        return made


@contextmanager
def in_time(step: LdapStep, seconds: float, host: str) -> Iterator[None]:
    try:
        with trio.fail_after(seconds):
            yield
    except trio.TooSlowError:
        raise LdapFailed(step, LdapFault.TOO_SLOW, host=host) from None


async def _bound(connection: LdapConnection, site: LdapSite, host: LdapHost) -> None:
    if not site.password.reveal():
        # A bind without a password is one of nobody, and succeeds.
        raise LdapFailed(LdapStep.BIND, LdapFault.NO_PASSWORD, host=host.name)
    result = await connection.bind(site.settings.bind_dn, site.password.reveal().encode())
    if result.code != LdapResultCode.SUCCESS:
        raise LdapFailed(LdapStep.BIND, refused(result, LdapFault.BIND_REFUSED), f"{result.code}: {result.said}", host.name)


async def base_of(connection: LdapConnection, settings: LdapSettings) -> str:
    if settings.base_dn:
        return settings.base_dn
    names = ("defaultNamingContext", "namingContexts")
    root = await connection.search("", SearchScope.BASE, ANYBODY, names, most=1, step=LdapStep.BASE)
    entry = entry_of(root.entries[0]) if root.entries else LdapEntry("", {})
    for name in names:
        values = entry.texts(name)
        if len(values) == 1 and values[0]:
            return values[0]
    raise LdapFailed(LdapStep.BASE, LdapFault.NO_BASE, "the directory names none, or several")


async def root_of(connection: LdapConnection, base: str) -> str:
    """The naming context that the base is in. Policies stand there, beside people."""
    names = ("defaultNamingContext", "namingContexts")
    root = await connection.search("", SearchScope.BASE, ANYBODY, names, most=1, step=LdapStep.BASE)
    entry = entry_of(root.entries[0]) if root.entries else LdapEntry("", {})
    contexts = [one for name in names for one in entry.texts(name)]
    return next((one for one in contexts if one and base.lower().endswith(one.lower())), base)


async def _lockout(connection: LdapConnection, root: str) -> LdapLockout | None:
    """The strictest of Active Directory's root and the password policies. A directory that lets nobody read them refuses, which is no
    fault.
    """
    read: list[LdapLockout] = []
    try:
        domain = await connection.search(
            root, SearchScope.BASE, ANYBODY, ("lockoutThreshold", "lockOutObservationWindow"), most=1, step=LdapStep.LOCKOUT
        )
        for one in domain.entries:
            read += _of_windows(one, "lockoutthreshold", "lockoutobservationwindow")
        policies = await connection.search(
            root,
            SearchScope.SUBTREE,
            read_filter("(|(objectClass=pwdPolicy)(objectClass=msDS-PasswordSettings))"),
            ("pwdMaxFailure", "pwdLockout", "pwdFailureCountInterval", "msDS-LockoutThreshold", "msDS-LockoutObservationWindow"),
            most=_MOST_POLICIES,
            step=LdapStep.LOCKOUT,
        )
    except LdapFailed as failed:
        if failed.fault in {LdapFault.CUT_OFF, LdapFault.MALFORMED, LdapFault.TOO_LONG}:
            raise
        return strictest(read)
    for one in policies.entries:
        read += _of_windows(one, "msds-lockoutthreshold", "msds-lockoutobservationwindow")
        if "pwdmaxfailure" not in one.attributes and "pwdlockout" not in one.attributes:
            continue
        locks = [value.upper() for value in one.attributes.get("pwdlockout", ())] == [b"TRUE"]
        threshold = (number_in(one, "pwdmaxfailure") or 0) if locks else 0
        read.append(LdapLockout(max(threshold, 0), max(number_in(one, "pwdfailurecountinterval") or 0, 0)))
    return strictest(read)


def _of_windows(entry: ReceivedEntry, threshold: str, window: str) -> Sequence[LdapLockout]:
    """The policy of the entry, if it has one. Windows counts a span in negative ticks."""
    most, ticks = number_in(entry, threshold), number_in(entry, window)
    return [] if most is None else [LdapLockout(max(most, 0), max(-(ticks or 0) // _TICKS_A_SECOND, 0))]


def number_in(entry: ReceivedEntry, attribute: str) -> int | None:
    values = entry.attributes.get(attribute, ())
    try:
        return int(values[0]) if len(values) == 1 and len(values[0]) <= 20 else None
    except ValueError:
        return None


def _answer(result: LdapResult) -> LdapAnswer:
    try:
        policy = messages.policy_error(result)
    except MalformedMessage:
        policy = None
    return LdapAnswer(
        code=result.code, said=result.said[:500], policy=policy, must_change=result.control(messages.PASSWORD_EXPIRED) is not None
    )


def entry_of(entry: ReceivedEntry) -> LdapEntry:
    return LdapEntry(entry.dn, entry.attributes)


def _url(settings: LdapSettings, host: LdapHost) -> str:
    return settings.hosts[settings.places.index(host)]

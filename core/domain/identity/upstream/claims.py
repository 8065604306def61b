"""The claims of an identity provider about a user, and how far Postern trusts them."""

import hmac
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum, StrEnum, auto
from types import MappingProxyType
from typing import Any, Final, Self
from uuid import UUID

from core.domain.formats import Json
from core.domain.identifiers import OrganizationId
from core.domain.identity.profiles import NOTHING_STATED, StatedProfile, stated_profile
from core.domain.identity.upstream.directory_visits import DirectoryVisit
from core.domain.identity.upstream.providers import TENANT, FurtherSettings, Naming, is_public_issuer, names_domain
from core.frozen import Frozen, replace

LEEWAY: Final = timedelta(seconds=60)
LONGEST_SUBJECT: Final = 255
# Longer than any address that mail servers accept.
_LONGEST_EMAIL: Final = 320
# The provider gives out the addresses of these domains itself.
_WEBSUITE_DOMAINS: Final = frozenset({"gmail.com", "googlemail.com"})
# The tenant of personal accounts of the office suite. The owners of these accounts have confirmed their addresses.
_CONSUMERS: Final = "9188040d-6c67-4c5b-b112-36a304b66dad"
_ADDRESS: Final = ("email", "email_verified")
_TENANT: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class NotVouched(Exception):
    """The provider's answer identifies nobody. The message is for the log."""


class OddProfile(NotVouched):
    """The provider works, and what it tells of this one person identifies nobody."""


NO_FIELDS: Final[Mapping[str, Json]] = MappingProxyType({})


class Asserted(Frozen):
    """The person whom the provider vouches for.

    Providers mean different things by "verified", so each has a rule of its own.
    """

    issuer: str
    subject: str
    email: str = ""
    """Empty when the provider told no address."""
    email_is_verified: bool = False
    stated: StatedProfile = NOTHING_STATED
    """The person's names and language, from one of the installation's three providers."""
    fields: Mapping[str, Json] = NO_FIELDS
    """The values of the claims that the organization's mapping names, by the keys of its fields. They say nothing about who the person is.
    """
    visit: DirectoryVisit | None = None
    """The person's visit to a directory by SAML, which the session remembers."""
    authenticated_at: datetime | None = None
    """When the person signed in at the provider. None when the provider does not say."""
    session_ends_at: datetime | None = None
    """When an organization's own provider of OpenID Connect wants the sessions of this sign-in to end (`session_expiry`)."""
    refuses_applications: bool = False
    """The provider lets the person be signed in to our own pages, and to no application."""
    methods: tuple[str, ...] = ()
    """The provider's words, as it has signed them, for how the person signed in there."""
    naming: Naming | None = None
    """For a further provider of the installation: what the id meant when the word was read. None for any other."""

    @property
    def domain(self) -> str:
        return self.email.rpartition("@")[2].lower()


def require_claims(
    claims: Mapping[str, Any],
    *,
    issuer: str,
    client_id: str,
    nonce: str,
    now: datetime,
    since: datetime | None = None,
    repeats: bool = True,
) -> None:
    """Checks the claims of an ID token whose signature is good (OpenID Connect Core, section 3.1.3.7). The person must have signed in at
    the provider after `since`, if the provider tells when. Unless the provider `repeats` the nonce, only another one is refused. Raises
    `NotVouched`.
    """
    if claims.get("iss") != issued_by(issuer, claims):
        raise NotVouched("another issuer")
    audience = claims.get("aud")
    if audience not in (client_id, [client_id]) and not (_is_among(client_id, audience) and claims.get("azp") == client_id):
        raise NotVouched("another audience")
    if claims.get("azp", client_id) != client_id:
        raise NotVouched("for another party")
    given = claims.get("nonce") if repeats else claims.get("nonce", nonce)
    if not isinstance(given, str) or not hmac.compare_digest(given.encode("utf-8", "surrogatepass"), nonce.encode()):
        raise NotVouched("another nonce")
    expires_at, issued_at = _seconds(claims, "exp"), _seconds(claims, "iat")
    if now.timestamp() >= expires_at + LEEWAY.total_seconds():
        raise NotVouched("expired")
    if max(issued_at, _seconds(claims, "nbf", issued_at)) > now.timestamp() + LEEWAY.total_seconds():
        raise NotVouched("from the future")
    if since is not None and "auth_time" in claims and _seconds(claims, "auth_time") < since.timestamp() - LEEWAY.total_seconds():
        raise NotVouched("the person has signed in there too long ago")


def issued_by(issuer: str, claims: Mapping[str, Any]) -> str:
    """The issuer that the token must name. A provider with many tenants has one issuer for each tenant, named by the token's `tid`."""
    if TENANT not in issuer:
        return issuer
    tenant = claims.get("tid")
    if not isinstance(tenant, str) or not _TENANT.fullmatch(tenant):
        raise NotVouched("no tenant")
    return issuer.replace(TENANT, tenant)


def may_be_issued_by(issuer: str, named: str) -> bool:
    """Whether an answer that names its issuer (RFC 9207) may come from this provider, before its tenant is known."""
    before, tenant, after = issuer.partition(TENANT)
    if not tenant:
        return named == issuer
    middle = named[len(before) : len(named) - len(after)]
    return named.startswith(before) and named.endswith(after) and _TENANT.fullmatch(middle) is not None


def of_openid(claims: Mapping[str, Any]) -> Asserted:
    """Reads the standard claims alone."""
    return _asserted(claims, _text(claims, "sub"), claims.get("email_verified") is True)


def of_own_openid(claims: Mapping[str, Any], now: datetime) -> Asserted:
    """An organization's own provider. One of a family where anybody can have an account vouches for nothing, or only for the accounts that
    an organization manages there. Raises `NotVouched`, also for a session there that has ended.
    """
    asserted = replace(of_openid(claims), session_ends_at=_session_end(claims, now))
    is_anybodys = is_public_issuer(asserted.issuer) or (names_domain(asserted.issuer) and not _is_managed(claims))
    return replace(asserted, email_is_verified=False) if is_anybodys else asserted


def of_websuite(claims: Mapping[str, Any]) -> Asserted:
    """An address in another domain may have changed hands since the provider verified it. Addresses that the provider manages itself cannot
    have: those in its own mail domain, or in a domain that it hosts (`hd`).
    """
    asserted = of_openid(claims)
    manages = asserted.domain in _WEBSUITE_DOMAINS or _is_managed(claims)
    return replace(_asserted(claims, asserted.subject, asserted.email_is_verified and manages), stated=stated_profile(claims))


def _is_managed(claims: Mapping[str, Any]) -> bool:
    return isinstance(claims.get("hd"), str) and claims["hd"] != ""


def of_officesuite(claims: Mapping[str, Any]) -> Asserted:
    """A tenant's administrator may write any address into the tenant's accounts. `xms_edov` says that the tenant has proved the address's
    domain. We recognise the person by tenant and object, never by the address.
    """
    tenant, person = _text(claims, "tid"), _text(claims, "oid")
    verified = tenant == _CONSUMERS or claims.get("xms_edov") in (True, 1, "1", "true", "True")
    return replace(_asserted(claims, f"{tenant}:{person}", verified), stated=stated_profile(claims))


def of_codehost(issuer: str, person: Mapping[str, Any], emails: Sequence[Any]) -> Asserted:
    """Takes the primary address, if the provider has verified it. We recognise the person by the number, since the provider gives released
    names to other people.
    """
    number = person.get("id")
    if not isinstance(number, int) or isinstance(number, bool):
        raise OddProfile("no id")
    stated_names = stated_profile(person)
    for one in emails:
        if isinstance(one, Mapping) and one.get("primary") is True and (stated := stated_address(one.get("email"))):
            return Asserted(issuer, str(number), stated, one.get("verified") is True, stated_names)
    return Asserted(issuer, str(number), stated=stated_names)


def of_further_openid(claims: Mapping[str, Any]) -> Asserted:
    """An address is only what the page that asks for one suggests, so it is never verified here. One that the provider says is not
    verified is not even suggested. Some providers write truth as a text.
    """
    is_doubted = claims.get("email_verified", True) not in (True, "true")
    asserted = _asserted({**claims, "email": "" if is_doubted else claims.get("email")}, _text(claims, "sub"), False)
    return replace(asserted, stated=stated_profile(claims))


def of_further_profile(settings: FurtherSettings, profile: Mapping[str, Any]) -> Asserted:
    """Reads the profile of a provider of OAuth 2.0 by the mapping. It says nothing about when the person has signed in there. Raises
    `NotVouched`.
    """
    subject = at_path(profile, settings.subject)
    if isinstance(subject, int) and not isinstance(subject, bool):
        subject = str(subject)
    if not isinstance(subject, str) or not 0 < len(subject) <= LONGEST_SUBJECT:
        raise OddProfile(f"the profile has no id at {settings.subject}")
    is_doubted = settings.verified != "" and at_path(profile, settings.verified) not in (True, "true")
    stated = "" if is_doubted or not settings.email else stated_address(at_path(profile, settings.email))
    name = at_path(profile, settings.full_name) if settings.full_name else None
    return Asserted(settings.identity_issuer, subject, stated, stated=stated_profile({"name": name}))


def at_path(profile: Mapping[str, Any], path: str) -> Any:
    """The value at names of members with dots between them. None where there is none."""
    found: Any = profile
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def with_userinfo(claims: Mapping[str, Any], userinfo: Mapping[str, Any], wanted: Collection[str] = ()) -> Mapping[str, Any]:
    """Adds the address that the ID token left out, and the claims that are wanted besides. Both answers must be about the same person
    (OpenID Connect Core, section 5.3.2).
    """
    if userinfo.get("sub") != claims.get("sub"):
        raise NotVouched("the user info is somebody else's")
    missing = {name for name in wanted if name not in claims and name not in _ADDRESS}
    names = missing if "email" in claims else missing | set(_ADDRESS)
    return {**claims, **{name: userinfo[name] for name in names if name in userinfo}}


def mapped(claims: Mapping[str, Any], mapping: Mapping[str, str]) -> Mapping[str, Json]:
    """The values of the mapped claims that are there, by the keys of the fields."""
    return {key: claims[claim] for claim, key in mapping.items() if claims.get(claim) is not None}


def _asserted(claims: Mapping[str, Any], subject: str, verified: bool) -> Asserted:  # noqa: FBT001 - the last word of each rule
    stated = stated_address(claims.get("email"))
    asserted = Asserted(_text(claims, "iss"), subject, stated, stated != "" and verified)
    return replace(asserted, authenticated_at=_signed_in_at(claims))


def _signed_in_at(claims: Mapping[str, Any]) -> datetime | None:
    """A value that is no moment says nothing, and so does not keep the person out."""
    try:
        return datetime.fromtimestamp(_seconds(claims, "auth_time"), UTC)
    except NotVouched:
        return None


def _session_end(claims: Mapping[str, Any], now: datetime) -> datetime | None:
    """`session_expiry` of OpenID Connect Enterprise Extensions (draft of June 2026), with a minute for the clocks. Unlike `auth_time`, a
    value that is no moment refuses the sign-in: the provider wants an end, and nobody knows which. Raises `NotVouched`.
    """
    if claims.get("session_expiry") is None:
        return None
    ends_at = datetime.fromtimestamp(_seconds(claims, "session_expiry"), UTC) + LEEWAY
    if ends_at <= now:
        raise NotVouched("the person's session there has already ended (session_expiry)")
    return ends_at


def stated_address(stated: object) -> str:
    """The address as the provider told it, for storing and showing. Empty when nobody could send mail to it."""
    return stated if isinstance(stated, str) and len(stated) <= _LONGEST_EMAIL and stated.isprintable() else ""


def _text(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_SUBJECT:
        raise NotVouched(f"no {name}")
    return value


def _is_among(client_id: str, audience: object) -> bool:
    return isinstance(audience, list | tuple) and client_id in audience


def _seconds(claims: Mapping[str, Any], name: str, otherwise: float | None = None) -> float:
    value = claims.get(name, otherwise)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**34:
        raise NotVouched(f"{name} is no moment")
    return value


class AddressUse(Enum):
    """How far an email address is trusted. It is verified by a mailed link or code that its reader used, or by one of the installation's
    own providers. An organization's own identity provider only asserts an address: the organization can make it assert anything. The table
    `VOUCHED_COUNTS` defines for each purpose whether an asserted address is enough. SQL statements use the fragments of
    `adapters/postgres/identity/addresses.py`.

    What an address is asked for. "The voucher" is the provider that vouched, or its organization.
    """

    SIGN_IN_AT_VOUCHER = auto()
    SWEEP = auto()
    """The account must not end as one that nobody has verified."""
    CLAIMS_OF_VOUCHER = auto()
    """`email_verified` towards the services of the organization."""
    JOINING_VOUCHER = auto()
    """Becoming a member of the organization by the domain of the address."""
    LISTING = auto()
    """A directory lists the person, or somebody accepts for them. It proves nothing, so it must end nothing."""
    OTHER_SIGN_IN = auto()
    """Signing in with a password, a passkey or a mailed link."""
    OTHER_PROVIDER = auto()
    """Another provider's first word about the address."""
    INVITATIONS = auto()
    """Reading and accepting invitations in one's own list, confirming memberships, and founding an organization."""
    JOINING_ELSEWHERE = auto()
    CLAIMS_OF_OTHERS = auto()
    PLATFORM = auto()
    """Rights on the platform."""
    HOLDING = auto()
    """The account is its owner's, so that whoever made it can neither move nor delete it, and a proof does not open it."""
    FORGETTING = auto()
    """What others keep about the address is about the person."""


# Whether a vouched address counts as a proved one.
VOUCHED_COUNTS: Final[Mapping[AddressUse, bool]] = {
    AddressUse.SIGN_IN_AT_VOUCHER: True,
    AddressUse.SWEEP: True,
    AddressUse.CLAIMS_OF_VOUCHER: True,
    AddressUse.JOINING_VOUCHER: True,
    AddressUse.LISTING: True,
    AddressUse.OTHER_SIGN_IN: False,
    AddressUse.OTHER_PROVIDER: False,
    AddressUse.INVITATIONS: False,
    AddressUse.JOINING_ELSEWHERE: False,
    AddressUse.CLAIMS_OF_OTHERS: False,
    AddressUse.PLATFORM: False,
    AddressUse.HOLDING: False,
    AddressUse.FORGETTING: False,
}


class Voucher(Frozen):
    """The organization's own provider that vouched for an address. It is kept as a text, and outlives both."""

    organization: OrganizationId
    provider: UUID

    @property
    def text(self) -> str:
        return f"{self.organization}/{self.provider}"

    @classmethod
    def of(cls, text: str | None) -> Self | None:
        """Reads what `text` wrote."""
        if text is None:
            return None
        organization, _, provider = text.partition("/")
        return cls(OrganizationId(UUID(organization)), UUID(provider))


class AddedKind(StrEnum):
    """What was added to an account."""

    PASSWORD = "password"  # noqa: S105 - a kind, not a password
    SECOND_FACTOR = "second_factor"
    PASSKEY = "passkey"
    IDENTITY = "identity"
    USER_KEY = "user_key"


class AddedWay(Frozen):
    """A way into an account, a second factor, or a key for the API of an application, that was not made in the browser session that proves
    the address. Somebody else may have made it, so it stays only if the person says so. The password and the keys are always here, since
    nothing says where they were chosen and made.
    """

    kind: AddedKind
    id: UUID
    """The account's, for a password and a second factor."""
    name: str
    """The person's, or the provider's."""
    at: datetime | None
    application: str = ""
    """That of a key."""
    made_by_service: bool = False
    """The application made the key."""
    last_used_at: datetime | None = None
    """Of a key."""

    @property
    def key(self) -> str:
        """Its name in a form."""
        return f"{self.kind}:{self.id}"

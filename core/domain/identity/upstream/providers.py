"""Identity providers, at which users have an account and by which they sign in here."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID

from core.domain.branding import logo_path
from core.domain.errors import BadRequest
from core.domain.formats import Json, fields_as_json
from core.domain.identifiers import OrganizationId
from core.domain.identity.upstream.connections import SamlSettings
from core.domain.identity.upstream.ldap.answers import LdapSite
from core.domain.saml import KeyPair
from core.domain.secrets import Secret
from core.frozen import Frozen, names_of

# Counted from the last failed call, unless a call has succeeded since. Long enough for people to use their password when a page tells them
# to. Short enough to ask the provider again soon: while we send nobody there, no call can succeed.
OUTAGE_LASTS: Final = timedelta(minutes=10)


def is_away(failed_at: datetime | None, now: datetime) -> bool:
    """Returns whether the provider is out of service. The calls of all processes report outages."""
    return failed_at is not None and now < failed_at + OUTAGE_LASTS


# By host. Microsoft is not among them: each of its issuers is one tenant. Nor is Google: see `HOSTS_OF_DOMAINS`.
PUBLIC_HOSTS: Final = frozenset(
    {
        *("appleid.apple.com", "account.apple.com", "gitlab.com", "slack.com", "discord.com", "discordapp.com", "github.com"),
        *("facebook.com", "linkedin.com", "access.line.me", "line.me", "yandex.ru", "yandex.com", "twitch.tv", "spotify.com"),
        *("vk.com", "vk.ru", "kakao.com", "naver.com", "paypal.com", "paypalobjects.com", "yahoo.com", "yahoo.co.jp", "amazon.com"),
        *("x.com", "twitter.com", "tiktok.com", "bitbucket.org", "atlassian.com", "dropbox.com", "mail.ru", "ok.ru", "steampowered.com"),
        *("steamcommunity.com", "patreon.com", "reddit.com", "zoom.us", "notion.com", "notion.so", "instagram.com", "weixin.qq.com"),
    }
)


# Anybody can have an account there, too, with an address of any domain that was theirs on some day. `hd` says that an organization manages
# the account.
HOSTS_OF_DOMAINS: Final = frozenset({"accounts.google.com"})


def is_public_issuer(issuer: str) -> bool:
    """Returns whether anyone can have an account at the issuer: it is one of the listed hosts, or below one. An organization may have a
    client there, and the provider still says nothing about the addresses of the organization's domain: a stranger's account there may state
    any of them.
    """
    labels = _host(issuer).split(".")
    return any(".".join(labels[at:]) in PUBLIC_HOSTS for at in range(len(labels)))


def names_domain(issuer: str) -> bool:
    """Whether the issuer says by `hd` which accounts an organization manages."""
    return _host(issuer) in HOSTS_OF_DOMAINS


def _host(issuer: str) -> str:
    try:
        return (urlsplit(issuer if "//" in issuer else f"//{issuer}").hostname or "").rstrip(".")
    except ValueError:
        return ""


# A version of an interface, in a path: `/v21.0/me`, `/api/v10/users/@me`.
_VERSION: Final = re.compile(r"(?<=[^/]/)v[0-9]+(?:\.[0-9]+)*(?=/)")


class Naming(Frozen):
    """What says who an external id is. One id may be another person's where any of these is another."""

    issuer: str
    """As it is stated. Empty where nobody has stated it."""
    profile_url: str
    subject: str
    """The path of the id in the profile."""


class FurtherKind(StrEnum):
    """The protocol that a provider speaks."""

    OPENID = "openid"
    """OpenID Connect. The issuer publishes its addresses and keys."""
    OAUTH = "oauth2"
    """OAuth 2.0 by addresses, with a profile that a mapping reads."""


class ClientSecretKind(StrEnum):
    """The type of the client's secret."""

    TEXT = "text"
    """The secret itself."""
    SIGNING_KEY = "signing_key"
    """A private key of P-256 in PEM. It signs a secret of a few minutes for each request, as Apple wants it."""


class FurtherSettings(Frozen, kw_only=True):
    """The protocol settings of a custom provider of the installation, without the client registration there."""

    kind: FurtherKind = FurtherKind.OPENID
    issuer: str = ""
    """For OpenID Connect, as the tokens have it. For OAuth 2.0, what people's ids belong to, whatever version the addresses have, and what
    answers that name their issuer must name. Empty where nobody has stated it.
    """
    authorization_url: str = ""
    token_url: str = ""
    profile_url: str = ""
    scopes: tuple[str, ...] = ()
    subject: str = ""
    """Where the profile of OAuth 2.0 has the person's id, as a path of member names."""
    email: str = ""
    """Where the profile has the address. Empty when it has none."""
    verified: str = ""
    """Where the profile says whether the address is verified. Empty when it says nothing."""
    full_name: str = ""
    """Where the profile contains the person's name."""
    posts_answer: bool = False
    """The provider sends its answer by a form (`response_mode=form_post`)."""
    repeats_nonce: bool = True
    """ID tokens repeat our nonce. Otherwise the state and the code's challenge alone say which request they answer."""
    secret_kind: ClientSecretKind = ClientSecretKind.TEXT
    team_id: str = ""
    key_id: str = ""

    @property
    def identity_issuer(self) -> str:
        """What the subjects belong to."""
        return self.issuer or self.profile_url

    @property
    def naming(self) -> Naming:
        return Naming(self.issuer, self.profile_url, self.subject)

    @property
    def place(self) -> tuple[str, ...]:
        """Where the secret of our client goes to. For other addresses it has to be given anew."""
        return (self.kind.value, self.issuer, self.token_url)

    def stored(self) -> Mapping[str, Json]:
        return fields_as_json(self, names_of(self))


def profile_place(profile_url: str) -> str:
    """The address of a profile whatever version it names: an id is the same person's in another version of one interface."""
    path, mark, query = profile_url.partition("?")
    return f"{_VERSION.sub('v', path)}{mark}{query}"


def digest_of_tested(settings: FurtherSettings, client_id: str, secret_set_at: datetime) -> bytes:
    """The settings that a test is about. The time when the secret was set stands for the secret, which a digest must not give away."""
    told = [dict(settings.stored()), client_id, secret_set_at.astimezone(UTC).isoformat()]
    return sha256(json.dumps(told, sort_keys=True).encode()).digest()


def restored_settings(kept: Mapping[str, Any]) -> FurtherSettings:
    """Reads what `stored` wrote."""
    read = {
        **kept,
        "kind": FurtherKind(kept["kind"]),
        "secret_kind": ClientSecretKind(kept["secret_kind"]),
        "scopes": tuple(kept["scopes"]),
    }
    return FurtherSettings(**read)


OWN_PROVIDER: Final = "upstream"
"""Logs and metrics use this name for every own provider of an organization."""
TENANT: Final = "{tenantid}"
"""A placeholder in an issuer. The token's tenant replaces it."""
_ID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class ProviderOrigin(StrEnum):
    """Whose an identity provider is, as its key states: one of the 3 social providers, a custom provider that platform owners have added,
    or an organization's own.
    """

    SHIPPED = "shipped"
    """One of the three."""
    FURTHER = "further"
    """Added by platform owners. The key is its short name."""
    OWN = "own"
    """An organization's own. The key is its id."""


class Provider(StrEnum):
    CODEHOST = "codehost"
    WEBSUITE = "websuite"
    OFFICESUITE = "officesuite"


_THREE: Final = frozenset(Provider)
# Names that a further provider cannot have: those of the three and of kinds, and every word that stands, or may come to stand, below
# `/auth/`. A test compares them with the endpoints.
RESERVED_NAMES: Final = frozenset(
    {
        *_THREE,
        *("verify-email", "device", "token", "revoke", "userinfo", "authorize", "introspect", "register", "par", "callback", "logout"),
        *("login", "link", "password", "email", "magic-link", "passkey", "mfa", "sms", "saml", "ldap", "oidc", "openid", "oauth", "oauth2"),
        *("upstream", "api", "admin", "new", "none", "own", "postern", "test", "logo", "providers", "presets"),
    }
)
SHORT_NAME: Final = re.compile(r"[a-z](?:-?[a-z0-9]){1,29}")
# These providers give a refresh token only after the person consents.
_RENEWABLE_BY_CONSENT: Final = frozenset({Provider.WEBSUITE})
# The names that pages show.
NAMES: Final[Mapping[Provider, str]] = {
    Provider.CODEHOST: "GitHub",
    Provider.WEBSUITE: "Google",
    Provider.OFFICESUITE: "Microsoft",
}


class UnknownProvider(BadRequest):
    text = "Provider not found"

    def __init__(self) -> None:
        super().__init__(words="provider_unknown")


class ProviderOff(BadRequest):
    """The provider is not set up, or no longer, or its organization has turned it off."""

    text = "This provider is not set up"

    def __init__(self, *, detail: str | None = None) -> None:
        super().__init__(words="provider_off", detail=detail)


class ProviderEndpoints(Frozen, kw_only=True):
    """The addresses of a provider. We ask the issuer for addresses that are empty (OpenID Connect Discovery)."""

    issuer: str
    authorization_url: str = ""
    token_url: str = ""
    userinfo_url: str = ""
    jwks_url: str = ""
    emails_url: str = ""


class ClientAtProvider(Frozen):
    """Our registration at a provider."""

    client_id: str
    secret: Secret


class Installed(Frozen):
    """One of the three shared providers, as the settings describe it. Without a client here, only organizations with a client of their own
    can use the provider.
    """

    endpoints: ProviderEndpoints
    client: ClientAtProvider | None


NOTHING_MAPPED: Final[Mapping[str, str]] = MappingProxyType({})


class SamlAtProvider(Frozen):
    """A provider that speaks SAML, and our key pair there."""

    settings: SamlSettings
    key: KeyPair


class ProviderSite(Frozen, kw_only=True):
    """The place where a provider answers."""

    key: str
    """The word or the short name of one of the installation, or the id of an organization's own."""
    endpoints: ProviderEndpoints
    organization: OrganizationId | None = None
    """The organization that owns the provider. None for one of the installation."""

    @property
    def kind(self) -> Provider | None:
        """None for any but the three."""
        return Provider(self.key) if is_one_of_three(self.key) else None

    @property
    def label(self) -> str:
        """The provider's name in logs and metrics."""
        return self.key if self.organization is None else OWN_PROVIDER

    @property
    def speaks_saml(self) -> bool:
        return False

    @property
    def speaks_ldap(self) -> bool:
        return False


class Upstream(ProviderSite, kw_only=True):
    """A provider, as one sign-in uses it."""

    name: str
    """The provider's display name."""
    client: ClientAtProvider
    scopes: tuple[str, ...] = ()
    """Scopes to ask for, besides those that identify a person."""
    profile_mapping: Mapping[str, str] = NOTHING_MAPPED
    """The keys of the organization's fields, by the claims that go into them."""
    second_factor_values: tuple[str, ...] = ()
    """The provider's words for a second factor that counts for the organization's own rule."""
    saml: SamlAtProvider | None = None
    """None for any other kind."""
    ldap: LdapSite | None = None
    """None for any other kind."""
    further: FurtherSettings | None = None
    """None for any but a further provider of the installation."""

    @property
    def proves(self) -> bool:
        """Whether the provider's word about an address counts at all. That of a further provider never does."""
        return self.further is None

    @property
    def states_issuer(self) -> bool:
        """Whether we know which issuer its answers may name. Nobody need state one for a further provider of OAuth 2.0."""
        return self.further is None or self.further.issuer != ""

    @property
    def speaks_saml(self) -> bool:
        return self.saml is not None

    @property
    def speaks_ldap(self) -> bool:
        return self.ldap is not None

    @property
    def records_itself(self) -> bool:
        """What the provider has answered is in the recorder before its browser comes back."""
        return self.speaks_saml or self.speaks_ldap

    @property
    def needs_consent_to_renew(self) -> bool:
        """The provider gives a refresh token only when the person is asked for consent."""
        return self.kind in _RENEWABLE_BY_CONSENT


class ProviderOffer(Frozen):
    """A provider that a page may lead to."""

    key: str
    name: str
    logo: str = ""
    """The path of its logo. Empty when it has none."""


class OfferedFurther(Frozen):
    """A further provider of the installation that pages may lead to."""

    key: str
    name: str
    organizations: frozenset[OrganizationId] | None = None
    """None when it is offered everywhere."""
    logo_digest: str | None = None

    @property
    def offer(self) -> ProviderOffer:
        return ProviderOffer(self.key, self.name, "" if self.logo_digest is None else logo_path(self.logo_digest))

    def is_offered_in(self, organization: OrganizationId | None) -> bool:
        return self.organizations is None or organization in self.organizations


class OwnProviders(Frozen):
    """An organization's own clients at shared providers, by the providers' words, and its own providers."""

    clients: tuple[str, ...] = ()
    providers: tuple[ProviderOffer, ...] = ()
    organization: OrganizationId | None = None
    """The organization, where it was looked up by its slug."""


NO_OWN_PROVIDERS: Final = OwnProviders()


def own_provider_of(key: str) -> UUID | None:
    """The id of an organization's own provider. None for one of the installation's, and for none."""
    return UUID(key) if _ID.fullmatch(key) else None


def origin_of(key: str) -> ProviderOrigin:
    """Whose provider has this key."""
    if _ID.fullmatch(key):
        return ProviderOrigin.OWN
    return ProviderOrigin.SHIPPED if is_one_of_three(key) else ProviderOrigin.FURTHER


def is_one_of_three(key: str) -> bool:
    """Whether the key names one of the three, which everything that concerns tokens of people at providers is about."""
    return key in _THREE


def provider_key(text: str) -> str:
    """The text, if it can be the key of a provider. Raises `UnknownProvider`."""
    if is_one_of_three(text) or _ID.fullmatch(text) or (SHORT_NAME.fullmatch(text) and text not in RESERVED_NAMES):
        return text
    raise UnknownProvider

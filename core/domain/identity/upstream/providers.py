"""Upstream providers: where people have an account already, with which they show here who they are. Three are the installation's, by the
public protocols of each. Any number are organizations' own, and speak OpenID Connect.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from core.domain.errors import BadRequest
from core.domain.identifiers import OrganizationId
from core.domain.secrets import Secret
from core.frozen import Frozen

OWN_PROVIDER: Final = "upstream"
"""What logs and metrics call any provider of an organization's own."""
TENANT: Final = "{tenantid}"
"""Stands in an issuer where the token's tenant is to be put in."""
_ID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Provider(StrEnum):
    CODEHOST = "codehost"
    WEBSUITE = "websuite"
    OFFICESUITE = "officesuite"


_THREE: Final = frozenset(Provider)
# They give what renews a token when the person consents, and not again.
_RENEWABLE_BY_CONSENT: Final = frozenset({Provider.WEBSUITE})
# As pages call them.
NAMES: Final[Mapping[Provider, str]] = {
    Provider.CODEHOST: "GitHub",
    Provider.WEBSUITE: "Google",
    Provider.OFFICESUITE: "Microsoft",
}


class UnknownProvider(BadRequest):
    text = "There is no such provider"

    def __init__(self) -> None:
        super().__init__(words="provider_unknown")


class ProviderOff(BadRequest):
    """It is not set up, or no longer, or its organization has turned it off."""

    text = "This provider is not set up"

    def __init__(self, *, detail: str | None = None) -> None:
        super().__init__(words="provider_off", detail=detail)


class ProviderEndpoints(Frozen, kw_only=True):
    """Where a provider answers. What is empty is asked of the issuer (OpenID Connect Discovery)."""

    issuer: str
    authorization_url: str = ""
    token_url: str = ""
    userinfo_url: str = ""
    jwks_url: str = ""
    emails_url: str = ""


class ClientAtProvider(Frozen):
    """What the provider knows us by."""

    client_id: str
    secret: Secret


class Installed(Frozen):
    """One of the three, as the settings have it. Without a client, only organizations with one of their own can use it."""

    endpoints: ProviderEndpoints
    client: ClientAtProvider | None


class Upstream(Frozen, kw_only=True):
    """A provider, as one sign-in uses it."""

    key: str
    """The word of one of the three, or the id of an organization's own."""
    name: str
    """As people know it."""
    endpoints: ProviderEndpoints
    client: ClientAtProvider
    scopes: tuple[str, ...] = ()
    """To be asked for beside those that say who somebody is."""
    organization: OrganizationId | None = None
    """Whose own it is. None: one of the three."""

    @property
    def kind(self) -> Provider | None:
        """None: an organization's own."""
        return None if self.organization is not None else Provider(self.key)

    @property
    def needs_consent_to_renew(self) -> bool:
        """What renews a token comes only where the person is asked for consent."""
        return self.kind in _RENEWABLE_BY_CONSENT

    @property
    def label(self) -> str:
        """In logs and metrics."""
        return self.key if self.organization is None else OWN_PROVIDER


class ProviderOffer(Frozen):
    """A provider that a page may lead to."""

    key: str
    name: str


class OwnProviders(Frozen):
    """What an organization has of its own: clients at some of the three, by their words, and other providers."""

    clients: tuple[str, ...] = ()
    providers: tuple[ProviderOffer, ...] = ()


NO_OWN_PROVIDERS: Final = OwnProviders()


def is_one_of_three(key: str) -> bool:
    """If not, it is the id of an organization's own."""
    return key in _THREE


def provider_key(text: str) -> str:
    """Raises `UnknownProvider`."""
    if is_one_of_three(text) or _ID.fullmatch(text):
        return text
    raise UnknownProvider

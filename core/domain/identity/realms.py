"""Realms: where the people of a mail domain sign in, as the organization says that has proved the domain. Only the domain of an address
decides, never whether the address has an account: so asking tells nothing about anybody.
"""

import encodings.idna  # noqa: F401 - otherwise the first address with such letters loads it, while all others wait
from enum import StrEnum
from typing import Final

from core.domain.email import Email
from core.domain.errors import Forbidden
from core.domain.identifiers import OrganizationId, UpstreamProviderId
from core.frozen import Frozen

_LONGEST_DOMAIN: Final = 253
_LONGEST_LABEL: Final = 63


class LoginPolicy(StrEnum):
    """What people of a domain may sign in with."""

    PASSWORD_ALLOWED = "password_allowed"  # noqa: S105 - a policy, not a password
    UPSTREAM_ONLY = "upstream_only"
    PASSWORD_FALLBACK = "password_fallback_if_provider_unavailable"  # noqa: S105


class Realm(Frozen, kw_only=True):
    """`shared_provider` names one that all organizations use, `own_provider` one of the organization's own; at most one of them is set.
    `joins`: the person who signs in could become a member by it, or ask to. Known only where a person is.
    """

    organization: OrganizationId
    organization_slug: str
    policy: LoginPolicy
    shared_provider: str = ""
    own_provider: UpstreamProviderId | None = None
    joins: bool = False

    @property
    def provider(self) -> str:
        """As `/auth/{provider}` names it. Empty: none."""
        return self.shared_provider if self.own_provider is None else str(self.own_provider)


class RealmProvider(Frozen):
    """A provider as the people of a realm meet it."""

    name: str
    is_available: bool
    """It can be used: it is set up and enabled, and has answered when it was last asked."""


class AuthMethod(StrEnum):
    """How the people of a domain sign in."""

    UPSTREAM = "upstream"
    PASSWORD = "password"  # noqa: S105 - a way to sign in
    OAUTH = "oauth"


class WayIn(Frozen):
    """How the people of a domain sign in at this moment. `realm` is None where no organization has proved the domain, `provider` where it
    names none, or one that there is no more.
    """

    realm: Realm | None = None
    provider: RealmProvider | None = None

    @property
    def is_required(self) -> bool:
        """Nothing but the provider will do, even where it is away: that is done without only where the policy says so."""
        if self.realm is None or self.realm.policy is LoginPolicy.PASSWORD_ALLOWED:
            return False
        return self.realm.policy is LoginPolicy.UPSTREAM_ONLY or self._is_available

    @property
    def leads_to_provider(self) -> bool:
        return self.is_required or self._is_available

    @property
    def provider_name(self) -> str:
        return "" if self.provider is None else self.provider.name

    @property
    def method(self) -> AuthMethod:
        if self.realm is None or not self.leads_to_provider:
            return AuthMethod.PASSWORD
        return AuthMethod.OAUTH if self.realm.own_provider is None else AuthMethod.UPSTREAM

    @property
    def _is_available(self) -> bool:
        return self.provider is not None and self.provider.is_available


ANY_WAY: Final = WayIn()


class ProviderRequired(Forbidden):
    """People of this domain sign in at their organization's provider. The same for every address of the domain."""

    text = "People of this domain sign in at their organization's provider: POST /api/auth/lookup-email names it"

    def __init__(self, *, detail: str | None = None) -> None:
        super().__init__(words="provider_required", detail=detail)


def mail_domain(email: Email) -> str:
    """As name servers know it, in ASCII. Empty when it cannot be one. What people type comes by here, whatever it is, so that what is too
    long is refused before it costs anything: a letter takes one of ASCII at least, and the work grows with the square of a label.
    """
    domain = email.domain
    if domain.isascii():
        return domain
    ascii_domain = ""
    for label in domain.split("."):
        if not 0 < len(label) <= _LONGEST_LABEL or len(ascii_domain) > _LONGEST_DOMAIN:
            return ""
        try:
            ascii_domain += f".{label.encode('idna').decode('ascii')}"
        except UnicodeError:
            return ""
    return ascii_domain[1:]

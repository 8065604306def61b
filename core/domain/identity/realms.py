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


class LoginPolicy(StrEnum):
    """What people of a domain may sign in with."""

    PASSWORD_ALLOWED = "password_allowed"  # noqa: S105 - a policy, not a password
    UPSTREAM_ONLY = "upstream_only"
    PASSWORD_FALLBACK = "password_fallback_if_provider_unavailable"  # noqa: S105


class Word(Frozen, kw_only=True):
    """What shows who somebody is, as the organization sees it that decides on their domain."""

    provider: str = ""
    """The provider whose word it is, as `Realm.provider` names it. Empty: it was shown in a way of ours."""
    vouches_in: OrganizationId | None = None
    """The organization that decides on the domain of the address that the provider tells and has verified. None: it has verified none, or
    nobody decides on it.
    """
    client_of: OrganizationId | None = None
    """The organization whose client the provider was asked with, if it has one there."""


OUR_OWN: Final = Word()


class Realm(Frozen, kw_only=True):
    """`shared_provider` names one that all organizations use, `own_provider` one of the organization's own; at most one of them is set.
    `has_client`: the organization has a client of its own at the shared one. `joins`: the person who signs in could become a member by it,
    or ask to. Known only where a person is, as is `has_client`.
    """

    organization: OrganizationId
    organization_slug: str
    policy: LoginPolicy
    shared_provider: str = ""
    own_provider: UpstreamProviderId | None = None
    has_client: bool = False
    joins: bool = False

    @property
    def provider(self) -> str:
        """As `/auth/{provider}` names it. Empty: none."""
        return self.shared_provider if self.own_provider is None else str(self.own_provider)

    @property
    def may_close_others(self) -> bool:
        """Nothing but the provider will do, at least while it can be used."""
        return self.policy is not LoginPolicy.PASSWORD_ALLOWED

    def objection(self, word: Word) -> "ProviderRequired | None":
        """Why this does not do where nothing but the provider will. At a shared one anybody can have an account, so it must be one that the
        provider knows by an address of the organization's, now: whoever has left has none any more. An own one counts for such alone.
        """
        if word.provider != self.provider:
            return ProviderRequired()
        if self.own_provider is not None:
            return None
        if word.vouches_in != self.organization:
            return AccountRequired()
        if self.has_client and word.client_of != self.organization:
            return ClientRequired(self)
        return None


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

    def __init__(self, *, words: str = "provider_required", detail: str | None = None) -> None:
        super().__init__(words=words, detail=detail)
        self.person: Email | None = None
        """Who has shown a proof that does not do, where only that proof says who they are."""


class AccountRequired(ProviderRequired):
    """They have an account at this provider, but not one that it knows by a verified address of the organization's."""

    def __init__(self) -> None:
        super().__init__(words="provider_account_required", detail="the provider vouches for no address of the organization")


class ClientRequired(ProviderRequired):
    """The organization has a client of its own there, which may let in fewer people, and another one was used."""

    def __init__(self, realm: Realm) -> None:
        super().__init__(detail="the provider was not asked with the organization's client")
        self.realm = realm

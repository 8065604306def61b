"""Sign-in domains (home realm discovery): how users of an organization's verified email domain sign in."""

import encodings.idna  # noqa: F401 - otherwise the first address with such letters loads it, while all others wait
from enum import StrEnum
from typing import Final

from core.domain.errors import Forbidden
from core.domain.identifiers import OrganizationId, UpstreamProviderId
from core.domain.mail import Email
from core.frozen import Frozen


class LoginPolicy(StrEnum):
    """The sign-in methods that people of an email domain can use."""

    PASSWORD_ALLOWED = "password_allowed"  # noqa: S105 - a policy, not a password
    UPSTREAM_ONLY = "upstream_only"
    PASSWORD_FALLBACK = "password_fallback_if_provider_unavailable"  # noqa: S105


class Word(Frozen, kw_only=True):
    """The source of a proof, as the organization with the domain sees it."""

    provider: str = ""
    """The provider that vouches for the person, as `Realm.provider` names it. Empty when the person gave a proof of ours, such as a
    password.
    """
    vouches_in: OrganizationId | None = None
    """The organization that has proved the domain of the address that the provider has verified. None when the provider has verified no
    address, or no organization has proved the domain.
    """
    client_of: OrganizationId | None = None
    """The organization whose client was used at the provider. None for the installation's client."""


OUR_OWN: Final = Word()


class Realm(Frozen, kw_only=True):
    """`shared_provider` names a provider that all organizations use, `own_provider` one of the organization's own; at most one of them is
    set. `has_client`: the organization has a client of its own at the shared provider. `joins`: the person who signs in could become a
    member by it, or ask to. `has_client` and `joins` are known only when the realm is looked up for a person.

    Only the domain of an email address decides, never whether the address has an account. So a response about an address reveals nothing
    about any user.
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
        """The provider as `/auth/{provider}` names it. Empty when the realm names none."""
        return self.shared_provider if self.own_provider is None else str(self.own_provider)

    @property
    def may_close_others(self) -> bool:
        """Only the provider is accepted, at least while it can be used."""
        return self.policy is not LoginPolicy.PASSWORD_ALLOWED

    def objection(self, word: Word) -> "ProviderRequired | None":
        """The reason to refuse this proof in a realm that accepts only its provider. At a shared provider anybody can have an account. So
        the provider must know the person by a verified address of the organization at this moment: people who have left have no such
        address any more. The organization's own provider counts for such addresses alone.
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
    """A provider, as the people of a realm see it."""

    name: str
    is_available: bool
    """The provider is set up and enabled, and it answered the last call."""
    issuer: str = ""
    """Of an organization's own provider by OpenID Connect, which can be asked whether it answers. Empty for any other."""


class AuthMethod(StrEnum):
    """How the people of a domain sign in, for `POST /api/auth/lookup-email`."""

    UPSTREAM = "upstream"
    PASSWORD = "password"  # noqa: S105 - a way to sign in
    OAUTH = "oauth"


class WayIn(Frozen):
    """How the people of a domain sign in at this moment. `realm` is None when no organization has proved the domain. `provider` is None
    when the realm names no provider, or one that is deleted.
    """

    realm: Realm | None = None
    provider: RealmProvider | None = None

    @property
    def is_required(self) -> bool:
        """Only the provider is accepted, even during its outage, unless the policy allows passwords during an outage."""
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
    """People of this domain sign in at their organization's provider. The answer is the same for every address of the domain."""

    text = "People of this domain sign in at their organization's identity provider: POST /api/auth/lookup-email returns it"

    def __init__(self, *, words: str = "provider_required", detail: str | None = None) -> None:
        super().__init__(words=words, detail=detail)
        self.person: Email | None = None
        """The address of the person who gave an insufficient proof. None when this proof does not show who the person is."""


class AccountRequired(ProviderRequired):
    """The person has an account at this provider, but the provider knows no verified address of the organization for it."""

    def __init__(self) -> None:
        super().__init__(words="provider_account_required", detail="the provider vouches for no address of the organization")


class ClientRequired(ProviderRequired):
    """The sign-in used another client than the organization's own, which may let in fewer people."""

    def __init__(self, realm: Realm) -> None:
        super().__init__(detail="the provider was not asked with the organization's client")
        self.realm = realm

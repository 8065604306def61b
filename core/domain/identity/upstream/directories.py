"""A directory that speaks SAML, as one answer finds it, and the answer while it waits for its browser."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final
from urllib.parse import urlencode

from core.domain.errors import BadRequest
from core.domain.identifiers import (
    ConnectionAnswerId,
    ConnectionTestId,
    OrganizationId,
    UpstreamProviderId,
)
from core.domain.identity.flows import Wanted
from core.domain.identity.sessions import PLATFORM, Context
from core.domain.identity.upstream.connections import ConnectionState, ProviderKind, SamlSettings
from core.domain.identity.upstream.ldap.settings import LdapSettings
from core.domain.identity.upstream.saml.assertions import DirectoryAssertion
from core.domain.identity.upstream.sign_in import OAuthError, SealedClient
from core.domain.secrets import Token
from core.frozen import Frozen

WAITS: Final = timedelta(minutes=1)
"""How long a checked answer waits for its browser, which a redirect sends on at once."""
TEST_LASTS: Final = timedelta(minutes=15)
RESULT_LASTS: Final = timedelta(hours=1)


class SealedKey(Frozen):
    """A certificate of ours in PEM, and its private key as it is stored."""

    certificate: str
    sealed_key: bytes


class ConnectedDirectory(Frozen, kw_only=True):
    """A provider of an organization's own, whatever its state."""

    id: UpstreamProviderId
    organization: OrganizationId
    organization_slug: str
    kind: ProviderKind
    state: ConnectionState
    enabled: bool
    """Also whether the organization is active."""
    is_active_organization: bool
    name: str
    issuer: str
    settings: SamlSettings | None
    ldap: LdapSettings | None = None
    profile_mapping: Mapping[str, str]
    scopes: tuple[str, ...]
    client: SealedClient
    """Our client there; for SAML with our private key as its secret, for LDAP with the bind password, which is empty while there is none.
    """
    key: SealedKey | None
    next_key: SealedKey | None
    former_key: SealedKey | None
    """It opens what a directory encrypts that has not read our metadata since our key pair changed."""


class AskedDirectory(Frozen, kw_only=True):
    """A directory, and what is known of the state that its answer brings."""

    directory: ConnectedDirectory
    is_asked: bool = False
    """A browser has left with this state, and has not come back."""
    was_asked: bool = False
    """A browser has come back with this state a moment ago."""
    test: ConnectionTestId | None = None
    """The state belongs to a test, which waits for its answer."""
    wanted: Wanted = Wanted()
    began: datetime | None = None
    """What the flow wants that the browser left in, and when it began. None when it left in no flow."""

    def authenticated_since(self, now: datetime) -> datetime | None:
        """The person must have signed in at the directory since then. None when any sign-in will do."""
        return None if self.began is None else self.wanted.signed_in_since(self.began, now)


class NewAnswer(Frozen, kw_only=True):
    """A checked answer, or the reference of a refused one, before it is stored."""

    id: ConnectionAnswerId
    provider: UpstreamProviderId
    code_digest: bytes
    assertion_digest: bytes | None
    """None for an answer that was refused: it may come again."""
    sealed: bytes | None
    """None for a request to sign out, which leaves nothing to come back for."""
    waits_until: datetime
    expires_at: datetime


class AskedPassword(Frozen, kw_only=True):
    """A directory by LDAP whose page a browser opens with a state."""

    directory: ConnectedDirectory
    is_asked: bool
    """This browser has left with this state, and has not come back."""
    test: bool
    """The state belongs to a test that this browser has begun, and that waits for its answer."""
    domains: frozenset[str]
    """The domains that the organization has proved."""
    application: Context = PLATFORM
    """The application that the browser's flow leads to."""


def password_page(base_url: str, provider: str, state: Token, login_hint: str) -> str:
    """Our page for the password of a directory by LDAP."""
    hint = {"login_hint": login_hint} if login_hint else {}
    return f"{base_url}/auth/{provider}/password?{urlencode({'state': state.reveal(), **hint})}"


def answer_context(answer: ConnectionAnswerId) -> str:
    return f"connection_answers.sealed_answer:{answer}"


def assertion_digest(assertion: DirectoryAssertion) -> bytes:
    return sha256(f"{assertion.issuer}\n{assertion.id}".encode("utf-8", "surrogatepass")).digest()


def request_id(nonce: str) -> str:
    """The id of our request. It is derived from the state, as the nonce is, so nothing has to be stored for it."""
    return f"_{sha256(b'saml request ' + nonce.encode()).hexdigest()[:40]}"


class DirectoryRefused(OAuthError):
    """The directory's answer signs nobody in. Its organization's administrators find the reason in the recorder, by the reference."""

    code = "OAUTH_ERROR"
    text = "The organization's directory could not sign you in: give this reference to your administrator"

    def __init__(self, reference: str, *, without_address: bool = False, detail: str | None = None) -> None:
        words = "directory_without_address" if without_address else "directory_refused"
        super().__init__(words=words, values={"reference": reference}, detail=detail)
        self.reference = reference


class Unsolicited(BadRequest):
    """An answer that belongs to no sign-in of ours: a sign-in begins here, never at the directory."""

    text = "This sign-in did not begin here, or has ended"

    def __init__(self, provider: UpstreamProviderId) -> None:
        super().__init__(words="directory_unsolicited")
        self.provider = provider

"""What an identity provider asserts about a user by SAML or LDAP, on its way to the form that every provider gives it."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID, uuid5

from core.domain.errors import BadRequest
from core.domain.formats import Json
from core.domain.identifiers import (
    ConnectionAnswerId,
    ConnectionTestId,
    OrganizationId,
    UpstreamProviderId,
)
from core.domain.identity.flows import Wanted
from core.domain.identity.sessions import PLATFORM, Context
from core.domain.identity.upstream.claims import LONGEST_SUBJECT, Asserted, NotVouched, stated_address
from core.domain.identity.upstream.connections import ConnectionState, ProviderKind, SamlSettings
from core.domain.identity.upstream.directory_visits import DirectoryVisit, methods_of_assertion, name_digest
from core.domain.identity.upstream.ldap.answers import LONGEST_SIGN_IN_NAME, LdapEntry, subject_of
from core.domain.identity.upstream.ldap.filters import is_attribute, is_readable
from core.domain.identity.upstream.ldap.settings import LdapSettings, ldap_issuer
from core.domain.identity.upstream.saml.assertions import TOLERANCE, Asserting, DirectoryAssertion
from core.domain.identity.upstream.sign_in import OAuthError, SealedClient
from core.domain.normal_forms import folded
from core.domain.secrets import Token
from core.frozen import Frozen, values_of

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
    text = "The organization's identity provider could not sign you in: give this reference to your administrator"

    def __init__(self, reference: str, *, without_address: bool = False, detail: str | None = None) -> None:
        words = "directory_without_address" if without_address else "directory_refused"
        super().__init__(words=words, values={"reference": reference}, detail=detail)
        self.reference = reference


class Unsolicited(BadRequest):
    """An answer that belongs to no sign-in of ours: a sign-in begins here, never at the directory."""

    text = "This sign-in did not start here, or has expired"

    def __init__(self, provider: UpstreamProviderId) -> None:
        super().__init__(words="directory_unsolicited")
        self.provider = provider


def asserted_by(provider: UpstreamProviderId, asserting: Asserting) -> Asserted:
    """The directory vouches for the address, which counts in a domain that its organization has proved. Raises `NotVouched`.

    Converts a SAML assertion to the form of every provider.
    """
    assertion, person = asserting.assertion, asserting.person
    if not 0 < len(person.subject) <= LONGEST_SUBJECT:
        raise NotVouched("the subject is empty or too long")
    email = stated_address(person.email)
    name = assertion.name_id
    visit = None
    if name is not None:
        visit = DirectoryVisit(
            provider=provider,
            name_digest=name_digest(provider, name.text),
            session_index=assertion.session_index or "",
            context_class=assertion.context_class or "",
            issued_at=assertion.issued_at,
            ends_at=None if assertion.session_ends_at is None else assertion.session_ends_at + TOLERANCE,
        )
    fields = {key: values[0] if len(values) == 1 else list(values) for key, values in person.fields.items() if values}
    return Asserted(
        assertion.issuer,
        person.subject,
        email,
        email != "",
        fields=fields,
        visit=visit,
        authenticated_at=assertion.authenticated_at,
        refuses_applications=assertion.refuses_applications,
        methods=methods_of_assertion(assertion),
    )


_MOST_VALUES: Final = 50


def read_attributes(settings: LdapSettings, mapping: Mapping[str, str]) -> Sequence[str]:
    """The attributes that a sign-in reads."""
    return list(dict.fromkeys((settings.identity_attribute.value, settings.address_attribute, *readable(mapping))))


def surveyed_attributes(settings: LdapSettings) -> Sequence[str]:
    """The attributes that a test reads of people."""
    groups = [settings.groups_attribute] if settings.groups_attribute else []
    return [settings.identity_attribute.value, settings.address_attribute, *groups]


def asserted_by_entry(
    provider: UpstreamProviderId, settings: LdapSettings, mapping: Mapping[str, str], entry: LdapEntry, now: datetime
) -> Asserted:
    """The directory vouches for the address, which counts in a domain that its organization has proved. Raises `NotRecognised`.

    Converts an LDAP entry to the form of every provider.
    """
    email = stated_address(next(iter(entry.texts(settings.address_attribute)), ""))
    fields: dict[str, Json] = {}
    for attribute, key in readable(mapping).items():
        values = entry.texts(attribute)[:_MOST_VALUES]
        if values:
            fields[key] = values[0] if len(values) == 1 else list(values)
    return Asserted(
        ldap_issuer(provider), subject_of(entry, settings.identity_attribute), email, email != "", fields=fields, authenticated_at=now
    )


def readable(mapping: Mapping[str, str]) -> Mapping[str, str]:
    return {attribute: key for attribute, key in mapping.items() if is_attribute(attribute) and is_readable(attribute)}


def stored_word(asserted: Asserted) -> Mapping[str, Json]:
    """What has to wait for the browser."""
    values = values_of(asserted)
    at = asserted.authenticated_at
    return {
        **{name: values[name] for name in ("issuer", "subject", "email")},
        "fields": dict(asserted.fields),
        "at": None if at is None else at.isoformat(),
    }


def restored_word(kept: Mapping[str, Any]) -> Asserted:
    return Asserted(
        kept["issuer"],
        kept["subject"],
        kept["email"],
        kept["email"] != "",
        fields=kept["fields"],
        authenticated_at=datetime.fromisoformat(kept["at"]),
    )


def counted_person(provider: UpstreamProviderId, *, subject: str = "", name: str = "") -> UUID:
    """Whose wrong passwords are counted together: those of an identity, whatever name somebody types for it, or those of a name that nobody
    has, in any case, width or form.
    """
    if subject:
        return uuid5(provider, f"identity {subject}")
    return uuid5(provider, f"name {sha256(folded(name, LONGEST_SIGN_IN_NAME).encode()).hexdigest()}")

"""Identity assertions (draft-ietf-oauth-identity-assertion-authz-grant-04, "ID-JAG"): an organization's identity provider lets an
application act for a user.
"""

import json
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final
from uuid import uuid5

from core.domain.errors import BadRequest
from core.domain.formats import Json
from core.domain.identifiers import ConnectionExchangeId, OrganizationId, SessionId, UpstreamProviderId
from core.domain.identity.upstream.claims import LONGEST_SUBJECT
from core.domain.identity.upstream.connection_tests import ConnectionExchange, ConnectionExchangeKind
from core.domain.identity.upstream.jwt_assertions import (
    LEEWAY,
    LONGEST_ASSERTION,
    AcceptedAssertion,
    AssertionFault,
    AssertionRules,
    TrustedKeys,
)
from core.domain.key_proofs import KeyThumbprint
from core.domain.outbound import client_keys, keys_destination
from core.frozen import Frozen, replace

DRAFT: Final = "draft-ietf-oauth-identity-assertion-authz-grant-04"
TYPE: Final = "oauth-id-jag+jwt"
GRANT_PROFILE: Final = "urn:ietf:params:oauth:grant-profile:id-jag"
LONGEST_LIFE: Final = timedelta(minutes=5)
SESSION_LASTS: Final = timedelta(minutes=10)
"""A session that an assertion opens has no refresh token: the application asks the directory again, which may say no by then."""
SUBJECT: Final = "sub"
LONGEST_CLAIM: Final = 200
LONGEST_ISSUER: Final = 500


class AssertionSettings(Frozen, kw_only=True):
    """What an owner has decided about a connection's assertions. The issuer and the keys of a connection by OpenID Connect are those of its
    ID tokens.
    """

    issues: bool = False
    issuer: str = ""
    """For SAML: the issuer as its assertions name it."""
    jwks_uri: str = ""
    """For SAML: the address at which its keys are published. Empty if they are pasted."""
    jwks: Mapping[str, Json] | None = None
    """For SAML: its keys, as they were pasted."""
    subject: str = SUBJECT
    """The claim with the subject by which the connection knows the person from their sign-ins."""

    @property
    def keys(self) -> TrustedKeys | None:
        """None when nobody has said them."""
        if self.jwks_uri:
            return TrustedKeys(address=self.jwks_uri)
        return None if self.jwks is None else TrustedKeys(pasted=self.jwks)


NO_ASSERTIONS: Final = AssertionSettings()


def usable_assertion_settings(given: AssertionSettings, *, of_saml: bool) -> AssertionSettings:
    """The settings as they are stored, if each of them can be used. Raises `BadRequest`."""
    if not 0 < len(given.subject) <= LONGEST_CLAIM or not given.subject.isprintable():
        raise BadRequest(
            f"subject: the claim name must have 1 to {LONGEST_CLAIM} visible characters",
            words="attribute_name",
            values={"most": LONGEST_CLAIM},
        )
    if not of_saml:
        if given.issuer or given.jwks_uri or given.jwks is not None:
            raise BadRequest(
                "issuer, jwks_uri, jwks: not allowed for an identity provider of kind oidc, which signs with its own keys",
                words="provider_kind",
            )
        return given
    if given.jwks_uri and given.jwks is not None:
        raise BadRequest("jwks: send either jwks_uri or jwks", words="keys_twice")
    if len(given.issuer) > LONGEST_ISSUER or not (given.issuer.isascii() and given.issuer.isprintable()):
        raise BadRequest(f"issuer: at most {LONGEST_ISSUER} visible characters", words="issuer_malformed", values={"most": LONGEST_ISSUER})
    if given.jwks_uri:
        keys_destination(given.jwks_uri)
    if given.issues and (not given.issuer or given.keys is None):
        raise BadRequest("issuer, jwks_uri: the issuer of the assertions and its keys are required", words="assertions_incomplete")
    keys = None if given.jwks is None else client_keys(given.jwks)
    return replace(given, jwks=keys)


class IssuingConnection(Frozen, kw_only=True):
    """MCP calls it enterprise-managed authorization: the user is not asked here. A connection issues assertions only if an owner has
    enabled this. The connection's rule determines the user: one claim of the assertion has the subject by which the connection knows the
    user from their sign-ins. An email address is never looked at.

    A connection of the application's own organization, as one assertion finds it by its issuer.
    """

    id: UpstreamProviderId
    organization: OrganizationId
    name: str
    issuer: str
    """As the connection's identities are stored with it."""
    assertions: AssertionSettings
    speaks_saml: bool
    is_on: bool
    """People can sign in through the connection."""


class IdentityAssertionFault(StrEnum):
    """Why an assertion gives no token. The first are those of every assertion (`AssertionFault`)."""

    MALFORMED = "malformed"
    KEY = "key"
    SIGNATURE = "signature"
    KEYS_AWAY = "keys_away"
    TYPE = "type"
    ISSUER = "issuer"
    AUDIENCE = "audience"
    EXPIRED = "expired"
    LIFETIME = "lifetime"
    EARLY = "early"
    SUBJECT = "subject"
    REPEATABLE = "repeatable"
    CLAIM = "claim"
    CONNECTION_OFF = "connection_off"
    NOT_ISSUING = "not_issuing"
    CLIENT = "client"
    PUBLIC_CLIENT = "public_client"
    NARROWER = "narrower"
    """The assertion demands something that we would have to leave out."""
    RESOURCE = "resource"
    RESOURCE_CLOSED = "resource_closed"
    SCOPE = "scope"
    PERSON_UNKNOWN = "person_unknown"
    PERSON_DEACTIVATED = "person_deactivated"
    DOMAIN = "domain"
    NOT_MEMBER = "not_member"
    NOT_ADMITTED = "not_admitted"
    USED = "used"


class IdentityAssertionRefusal(Exception):
    """An assertion that gives no token. `told` is what came, unless that tells about a person."""

    def __init__(self, fault: IdentityAssertionFault, came: str = "") -> None:
        super().__init__(fault.value)
        self.fault = fault
        self.came = came


def refusal_of(fault: AssertionFault) -> IdentityAssertionRefusal:
    return IdentityAssertionRefusal(IdentityAssertionFault(fault.value))


# Demands of an assertion that a token of ours does not keep: a key that the application has not proved to have (RFC 7800), structured
# details (RFC 9396), somebody who acts for the person, and a tenant of an issuer with several, whose subjects mean something else.
_NARROWING: Final = ("cnf", "authorization_details", "act", "tenant")


def claimed(assertion: str) -> tuple[Any, Any]:
    """The type and the issuer that an assertion names, before anything is verified. Both may be anything, or None."""
    if not 0 < len(assertion) <= LONGEST_ASSERTION or not assertion.isascii():
        return None, None
    header, _, rest = assertion.partition(".")
    return _member(header, "typ"), _member(rest.partition(".")[0], "iss")


def is_identity_assertion(assertion: str) -> bool:
    """Whether the assertion says that it is one. Types are compared as media types are (RFC 7515 section 4.1.9)."""
    named, _ = claimed(assertion)
    return isinstance(named, str) and named.lower().removeprefix("application/") == TYPE


def _member(part: str, name: str) -> Any:
    try:
        read = json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        return None
    return read.get(name) if isinstance(read, dict) else None


def rules_for(connection: IssuingConnection, audience: str) -> AssertionRules:
    """What each assertion of the connection must say."""
    issuer = connection.assertions.issuer if connection.speaks_saml else connection.issuer
    return AssertionRules(issuer=issuer, audiences=(audience,), longest_life=LONGEST_LIFE, type=TYPE, once=True)


def subject_of(assertion: AcceptedAssertion, connection: IssuingConnection, client: str, key: KeyThumbprint | None = None) -> str:
    """The person's subject at the connection, of an assertion that keeps the rules and is for this client. An assertion that is bound to a
    key needs a proof of it: `key` is the one that the request has shown, and the token is bound to it. Raises `IdentityAssertionRefusal`.
    """
    claims = assertion.claims
    if claims.get("client_id") != client:
        raise IdentityAssertionRefusal(IdentityAssertionFault.CLIENT)
    if "iat" not in claims:
        raise IdentityAssertionRefusal(IdentityAssertionFault.LIFETIME)
    kept = () if key is None or claims.get("cnf") != {"jkt": key} else ("cnf",)
    narrowing = [name for name in _NARROWING if claims.get(name) is not None and name not in kept]
    if claims.get("aud_tenant") not in {None, str(connection.organization)}:
        narrowing.append("aud_tenant")
    if narrowing:
        raise IdentityAssertionRefusal(IdentityAssertionFault.NARROWER, ", ".join(narrowing))
    subject = claims.get(connection.assertions.subject)
    if not isinstance(subject, str) or not 0 < len(subject) <= LONGEST_SUBJECT:
        raise IdentityAssertionRefusal(IdentityAssertionFault.SUBJECT, connection.assertions.subject)
    return subject


class UsedIdentityAssertion(Frozen, kw_only=True):
    """The record of an accepted assertion, with the session that it opens."""

    provider: UpstreamProviderId
    digest: bytes
    session: SessionId
    expires_at: datetime
    """It is kept until then: neither the assertion nor the session is good any more."""


class AssertionUse(Frozen):
    """Whether an assertion may open its session, as things are now."""

    issues: bool
    """The connection is on, and issues assertions."""
    is_member: bool
    """The person is a member of the organization by their own act."""
    is_first: bool
    """Nobody has used the assertion before."""

    def require(self) -> None:
        """Raises `IdentityAssertionRefusal`."""
        if not self.issues:
            raise IdentityAssertionRefusal(IdentityAssertionFault.NOT_ISSUING)
        if not self.is_member:
            raise IdentityAssertionRefusal(IdentityAssertionFault.NOT_MEMBER)
        if not self.is_first:
            raise IdentityAssertionRefusal(IdentityAssertionFault.USED)


def kept_until(assertion: AcceptedAssertion, session_ends_at: datetime) -> datetime:
    return max(assertion.expires_at + LEEWAY, session_ends_at)


def refused_assertion(provider: UpstreamProviderId, refusal: IdentityAssertionRefusal, now: datetime) -> ConnectionExchange:
    """The entry of the recorder. Each fault is counted in one entry: an application that tries again and again pushes nothing out."""
    words, mend = in_words(refusal.fault)
    kind = ConnectionExchangeKind.ASSERTION
    return ConnectionExchange(
        id=ConnectionExchangeId(uuid5(provider, f"{kind.value}:{refusal.fault.value}")),
        provider=provider,
        kind=kind,
        succeeded=False,
        fault=refusal.fault.value,
        reason=f"{words}: {refusal.came}" if refusal.came else words,
        advice=mend,
        created_at=now,
        last_at=now,
    )


def in_words(fault: IdentityAssertionFault) -> tuple[str, str]:
    """The reason, and the change that helps."""
    return _WORDS[fault]


_F: Final = IdentityAssertionFault
_KEYS_MEND: Final = "Make sure that Postern can fetch the issuer's keys, and that the assertion is signed with one of them"
_WORDS: Final[Mapping[IdentityAssertionFault, tuple[str, str]]] = {
    _F.MALFORMED: ("The assertion cannot be read", f"Send the signed token as received. It can have up to {LONGEST_ASSERTION >> 10} KiB"),
    _F.KEY: ("The identity provider has no key with the kid of the assertion", _KEYS_MEND),
    _F.SIGNATURE: ("The assertion is not signed with a key of the identity provider", _KEYS_MEND),
    _F.KEYS_AWAY: ("The identity provider's keys could not be fetched", _KEYS_MEND),
    _F.TYPE: (f"The header's typ is not {TYPE}", "Request an identity assertion (ID-JAG) from the identity provider, not another token"),
    _F.ISSUER: (
        "The organization has no identity provider with this issuer",
        "Compare iss with the issuer of the identity provider, byte for byte",
    ),
    _F.AUDIENCE: (
        "The audience of the assertion is not this installation only",
        "Request an assertion whose aud is the issuer of Postern only",
    ),
    _F.EXPIRED: ("The assertion has expired", "Request a new assertion from the identity provider, and check the clocks"),
    _F.LIFETIME: (
        "The assertion is valid for more than 5 minutes, or has no iat",
        "Configure the identity provider to issue assertions that are valid for at most 5 minutes",
    ),
    _F.EARLY: ("The assertion is not valid yet", "Compare the identity provider's clock with Postern's clock"),
    _F.SUBJECT: (
        "The assertion does not contain the configured subject claim",
        "Enter the claim that contains the subject of the person's sign-ins",
    ),
    _F.REPEATABLE: (
        "The assertion has no jti, so it could be used twice",
        "Configure the identity provider to add a jti to each assertion",
    ),
    _F.CLAIM: ("A claim of the assertion is invalid", "Compare the assertion with the draft specification"),
    _F.CONNECTION_OFF: ("The identity provider is turned off, or was never activated", "Test it, then ask an owner to activate it"),
    _F.NOT_ISSUING: (
        "Identity assertions of this identity provider are not accepted",
        "Ask an owner to turn them on, on the page of the identity provider",
    ),
    _F.CLIENT: (
        "The assertion was issued for another application",
        "Configure the identity provider to set client_id to the client ID of this application",
    ),
    _F.PUBLIC_CLIENT: ("The application cannot authenticate", "Add a client secret or keys to the application"),
    _F.NARROWER: (
        "The assertion has restrictions that a token of Postern cannot enforce",
        "Configure the identity provider to omit these claims",
    ),
    _F.RESOURCE: (
        "The assertion names no API, or a different API than the request",
        "Request an assertion for this API (resource) from the identity provider",
    ),
    _F.RESOURCE_CLOSED: (
        "The application cannot request tokens for an API with this identifier",
        "Register the API, or allow the application on the API's page",
    ),
    _F.SCOPE: (
        "The scope exceeds the assertion, or the API has no such scope",
        "Request these scopes of the API from the identity provider",
    ),
    _F.PERSON_UNKNOWN: (
        "No person with this subject has signed in through the identity provider",
        "Ask the person to sign in through it once",
    ),
    _F.PERSON_DEACTIVATED: ("The person's account is deactivated", "Reactivate the account where it was deactivated"),
    _F.DOMAIN: (
        "The domain of the person's email address is not verified, or belongs to another identity provider",
        "Verify the domain. People of other domains and platform owners give consent to applications themselves",
    ),
    _F.NOT_MEMBER: (
        "The person is not a member, or has not confirmed the membership",
        "Invite the person, or ask them to confirm their membership",
    ),
    _F.NOT_ADMITTED: (
        "The application does not allow the person to sign in, or the organization requires MFA first",
        "Assign a role of the application to the person, or ask them to set up MFA",
    ),
    _F.USED: ("The assertion was already used", "Use each assertion once, and request a new one from the identity provider"),
}

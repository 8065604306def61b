"""Turns a SAML authentication request into an assertion, by the same steps as for any application."""

import hmac
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

from core.domain.claims import (
    NO_FACTS,
    NO_PROFILE,
    OF_ACCOUNT,
    OF_MEMBERSHIP,
    OF_PROFILE,
    ClaimPlace,
    ClaimSource,
    DescribedPerson,
    Said,
    ServiceFacts,
    StandardProfile,
    ToldClaim,
    WithheldClaim,
    groups,
    service_told,
)
from core.domain.federation.oauth.authorization_steps import RequestingApplication, SignedInPerson
from core.domain.federation.oauth.authorizations import (
    AuthorizationErrorCode,
    AuthorizationPrompt,
    AuthorizationRefused,
    AuthorizationRequest,
    Recipient,
)
from core.domain.federation.oauth.resources import EMAIL, OPENID, ORGANIZATION, PROFILE, SCOPES, known
from core.domain.federation.saml.configurations import Configuration, Signer, Source
from core.domain.federation.saml.messages import AuthnRequest
from core.domain.formats import Json
from core.domain.identifiers import ServiceId, UserId
from core.domain.identity.sessions import ONE_FACTOR, TWO_FACTORS, context_class
from core.domain.mail import Email
from core.domain.saml import ContextComparison, NameId, NameIdFormat, RequestDeclined, RequestedContext, Status
from core.frozen import Frozen

HTTP_POST: Final = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST"
UNSPECIFIED_CLASS: Final = "urn:oasis:names:tc:SAML:2.0:ac:classes:unspecified"
PASSWORD_CLASS: Final = "urn:oasis:names:tc:SAML:2.0:ac:classes:PasswordProtectedTransport"  # noqa: S105 - a name
MULTI_FACTOR_CLASS: Final = "https://refeds.org/profile/mfa"

# The number of factors of each class of sign-in. The last class with one or two factors is our answer when a request asks for no class.
_STRENGTHS: Final[Mapping[str, int]] = {
    UNSPECIFIED_CLASS: 1,
    "urn:oasis:names:tc:SAML:2.0:ac:classes:Password": 1,
    PASSWORD_CLASS: 1,
    "urn:oasis:names:tc:SAML:2.0:ac:classes:TimeSyncToken": 2,
    "urn:oasis:names:tc:SAML:2.0:ac:classes:MobileTwoFactorContract": 2,
    "http://schemas.microsoft.com/claims/multipleauthn": 2,
    TWO_FACTORS: 2,
    MULTI_FACTOR_CLASS: 2,
}
_BY_PASSWORD: Final = "pwd"  # noqa: S105 - a method's name
PROVIDER: Final = "saml"
_PERSISTENT: Final = re.compile("[0-9a-f]{64}")
_TRANSIENT: Final = re.compile("_[0-9a-f]{40}")


class SamlRequest(Frozen, kw_only=True):
    """An accepted request, in the form that a flow stores."""

    acs_url: str
    request_id: str | None
    """None when no service provider has asked, and the person starts here."""
    relay_state: str | None
    force: bool = False
    passive: bool = False
    name_id_format: NameIdFormat | None = None
    subject: str | None = None
    context: RequestedContext | None = None
    next_certificate: bool = False
    """Signs with the next certificate, to try it before it becomes active."""
    audience: str | None = None
    """The entity id of the service provider that gets the answer. None when a process of the release before stored the request."""

    def stored(self) -> Mapping[str, Json]:
        return {
            "acs_url": self.acs_url,
            "request_id": self.request_id,
            "relay_state": self.relay_state,
            "force": self.force,
            "passive": self.passive,
            "name_id_format": None if self.name_id_format is None else self.name_id_format.value,
            "subject": self.subject,
            "classes": None if self.context is None else list(self.context.classes),
            "comparison": None if self.context is None else self.context.comparison,
            "next_certificate": self.next_certificate,
            "audience": self.audience,
        }


def restored(kept: Mapping[str, Any]) -> SamlRequest:
    """Reads the form that `stored` made."""
    return SamlRequest(
        acs_url=kept["acs_url"],
        request_id=kept["request_id"],
        relay_state=kept["relay_state"],
        force=kept["force"],
        passive=kept["passive"],
        name_id_format=None if kept["name_id_format"] is None else NameIdFormat(kept["name_id_format"]),
        subject=kept["subject"],
        context=None if kept["classes"] is None else RequestedContext(classes=tuple(kept["classes"]), comparison=kept["comparison"]),
        next_certificate=kept["next_certificate"],
        audience=kept.get("audience"),
    )


class SamlSubject(Frozen, kw_only=True):
    """The data about the person that the service provider may get."""

    user: UserId
    email: str
    role: str
    """The person's role in the organization of the service. Empty for a person who is no member."""
    allowed: str | None = None
    """The entity id of the service provider that the person has allowed to learn who they are. None when the person has allowed none of
    this service.
    """
    allowed_scopes: Sequence[str] = ()
    """What this consent covers of the person's own values, in the words of scopes."""
    email_is_verified: bool = False
    profile: StandardProfile = NO_PROFILE
    tells_more: bool = False
    """The service may learn more of the person than the account: `facts` have to be read."""
    facts: ServiceFacts = NO_FACTS


class Meeting(Frozen, kw_only=True):
    """A service, for a browser that comes from its service provider, and the person who is signed in there, if there is one."""

    application: RequestingApplication
    configuration: Configuration
    signer: Signer | None
    """The active certificate and its key. None when there is none yet: then nobody can get an answer."""
    next_signer: Signer | None
    signed_in: SignedInPerson | None
    subject: SamlSubject | None
    session_ends_at: datetime | None


def asked(request: AuthnRequest, configuration: Configuration, acs_url: str, relay_state: str | None) -> SamlRequest:
    """Raises `RequestDeclined`: from here on we know the receiver of an answer."""
    if request.protocol_binding not in {None, HTTP_POST}:
        raise RequestDeclined(Status.UNSUPPORTED_BINDING, "Responses are sent with HTTP-POST only")
    if request.name_qualifier not in {None, "", configuration.entity_id}:
        raise RequestDeclined(Status.INVALID_NAME_ID_POLICY, "SPNameQualifier names another service provider")
    if request.unreadable_subject:
        raise RequestDeclined(Status.UNKNOWN_PRINCIPAL, "The Subject of a request must be a NameID, unencrypted")
    if request.subject_qualifier not in {None, "", configuration.entity_id}:
        raise RequestDeclined(Status.UNKNOWN_PRINCIPAL, "The Subject's SPNameQualifier names another service provider")
    wanted: NameIdFormat | None = None
    if request.name_id_format not in {None, "", NameIdFormat.UNSPECIFIED.value}:
        try:
            wanted = NameIdFormat(request.name_id_format or "")
        except ValueError:
            raise RequestDeclined(Status.INVALID_NAME_ID_POLICY, "This NameID format is not supported") from None
    if request.context is not None:
        needed_factors(request.context)
    return SamlRequest(
        acs_url=acs_url,
        request_id=request.head.id,
        relay_state=relay_state,
        force=request.force,
        passive=request.passive,
        name_id_format=wanted,
        subject=request.subject,
        context=request.context,
        audience=configuration.entity_id,
    )


def unasked(configuration: Configuration, relay_state: str | None, *, next_certificate: bool) -> SamlRequest:
    """A sign-in that the person starts here, without a request."""
    assert configuration.acs_url is not None  # noqa: S101 - an enabled configuration has one
    return SamlRequest(
        acs_url=configuration.acs_url,
        request_id=None,
        relay_state=relay_state,
        next_certificate=next_certificate,
        audience=configuration.entity_id,
    )


def as_authorization(request: SamlRequest, application: RequestingApplication) -> AuthorizationRequest:
    """Returns the SAML request as an OpenID Connect request, because one function decides the next step for both protocols. The result
    always asks for consent, because SAML has no scopes to compare; `Progress` says whether the person has consented.
    """
    prompts = {AuthorizationPrompt.CONSENT, AuthorizationPrompt.LOGIN} if request.force else {AuthorizationPrompt.CONSENT}
    return AuthorizationRequest(
        client_id=application.registered.client_id,
        recipient=Recipient(request.acs_url),
        scopes=(),
        prompts=frozenset(prompts | ({AuthorizationPrompt.NONE} if request.passive else set())),
        acr_values=() if request.context is None or needed_factors(request.context) == 1 else (TWO_FACTORS,),
    )


def has_allowed(meeting: Meeting) -> bool:
    """Whether the service provider may learn who is signed in: the person has allowed this very service provider, or is a member of the
    service's organization by their own act. An organization can list anybody as its member, and anybody can send a browser here.
    """
    if meeting.signed_in is None or meeting.subject is None:
        return False
    if meeting.signed_in.is_own_member:
        return True
    allowed = meeting.subject.allowed
    if allowed is None or allowed != meeting.configuration.entity_id:
        return False
    # The organization may have added attributes since. What it knows itself needs no consent.
    return set(told(meeting)) - {ORGANIZATION} <= {OPENID, EMAIL, *meeting.subject.allowed_scopes}


def require_askable(request: SamlRequest, meeting: Meeting) -> None:
    """Raises `RequestDeclined` when the request forbids questions and the person would have to answer one. This check comes before
    everything that depends on the person, and answers the same when nobody is signed in. Otherwise anybody could find out whether a visitor
    is a certain person.
    """
    if request.passive and not has_allowed(meeting):
        raise RequestDeclined(Status.NO_PASSIVE, "The person would have to sign in or give consent")


def require_no_agent(application: RequestingApplication) -> None:
    """Raises `RequestDeclined` for an agent, to which nobody signs in."""
    if application.is_agent:
        raise RequestDeclined(Status.REQUEST_DENIED, "The service is an agent: it acts for people at APIs, and people cannot sign in to it")


def told(meeting: Meeting) -> Sequence[str]:
    """The data that the service provider may get, as scopes of OpenID Connect: people read the same sentences for both. A request may ask
    for the address as a name at any time, whatever the configuration says, so EMAIL is always there. The organization's own name says
    nothing about the person.
    """
    assert meeting.subject is not None  # noqa: S101 - for the type checker: nobody else is asked
    scopes = {OPENID, EMAIL}
    for one in saml_said(meeting.configuration, meeting.application, meeting.subject):
        if isinstance(one, ToldClaim) and one.scope is not None and _texts(one.value):
            scopes.add(one.scope)
    return known(tuple(scopes))


def declined(refusal: AuthorizationRefused, *, passive: bool) -> RequestDeclined:
    """Translates a refusal of OpenID Connect into SAML."""
    status = _STATUSES.get(refusal.word, Status.NO_PASSIVE if passive else Status.AUTHN_FAILED)
    return RequestDeclined(status, refusal.message)


_STATUSES: Final = {
    AuthorizationErrorCode.ACCESS_DENIED: Status.REQUEST_DENIED,
    AuthorizationErrorCode.UNMET_REQUIREMENTS: Status.NO_AUTHN_CONTEXT,
}


def needed_factors(context: RequestedContext) -> int:
    """The least number of factors that the request accepts. Raises `RequestDeclined` when we know none of its classes."""
    strengths = [_STRENGTHS[one] for one in context.classes if one in _STRENGTHS]
    if not strengths or context.comparison not in set(ContextComparison):
        raise RequestDeclined(Status.NO_AUTHN_CONTEXT, "None of the requested authentication contexts is supported")
    match ContextComparison(context.comparison):
        case ContextComparison.BETTER:
            least = max(strengths) + 1
            if least > 2:
                raise RequestDeclined(Status.NO_AUTHN_CONTEXT, "No sign-in here is better than the requested one")
            return least
        case ContextComparison.MAXIMUM:
            return 1
        case _:
            return min(strengths)


def stated_class(methods: Sequence[str], context: RequestedContext | None) -> str:
    """The class of a sign-in by these methods: a requested class that the sign-in meets, or the class that fits best."""
    factors = 2 if context_class(methods) != ONE_FACTOR else 1
    if context is not None and context.comparison == ContextComparison.EXACT:
        known = [one for one in context.classes if one in _STRENGTHS and _STRENGTHS[one] <= factors]
        if known:
            return known[0]
    if context is not None and context.comparison == ContextComparison.MAXIMUM:
        # The stated class must not be stronger than the strongest requested one.
        factors = min(factors, max(_STRENGTHS.get(one, 1) for one in context.classes))
    if factors == 2:
        return MULTI_FACTOR_CLASS
    return PASSWORD_CLASS if _BY_PASSWORD in methods else UNSPECIFIED_CLASS


def session_end(application: RequestingApplication, signed_in: SignedInPerson, session_ends_at: datetime) -> datetime:
    """When the service provider's session must have ended: with ours, or, if that is sooner, when the organization
    wants another sign-in.
    """
    lifetime = application.session_lifetime
    return session_ends_at if lifetime is None else min(session_ends_at, signed_in.proved_at + lifetime)


def require_subject(request: SamlRequest, subject: SamlSubject, service: ServiceId, key: bytes) -> None:
    """Raises `RequestDeclined` when the request names another person, by address or by persistent name. Another form of name, such as a
    transient one, cannot be used here.
    """
    if request.subject is not None and not goes_by(request.subject, subject.user, subject.email, service, key):
        raise RequestDeclined(Status.UNKNOWN_PRINCIPAL, "The request names another person than the one who is signed in")


def named(format_: NameIdFormat, subject: SamlSubject, service: ServiceId, key: bytes, transient: str) -> NameId:
    """Returns the name by which the service provider knows the person. A persistent name is the same at each sign-in and differs between
    services; without `key`, nobody can tell from a persistent name whose name it is. A transient name is `transient`, which the caller
    makes anew for each sign-in. All other formats use the person's address.
    """
    match format_:
        case NameIdFormat.PERSISTENT:
            text = _persistent(subject.user, service, key)
        case NameIdFormat.TRANSIENT:
            text = transient
        case _:
            text = subject.email
    return NameId(text=text, format=format_)


def _persistent(user: UserId, service: ServiceId, key: bytes) -> str:
    return hmac.digest(key, f"{service} {user}".encode(), sha256).hex()


def goes_by(name: str, user: UserId, email: str, service: ServiceId, key: bytes) -> bool:
    """Whether the name is the person's address, or the person's persistent name at the service."""
    if name.casefold() == email.casefold():
        return True
    return may_be_persistent(name) and hmac.compare_digest(name, _persistent(user, service, key))


def may_be_persistent(name: str) -> bool:
    """Whether the text has the form of our persistent names."""
    return _PERSISTENT.fullmatch(name) is not None


def may_be_transient(name: str) -> bool:
    """Whether the text has the form of our transient names. Only the latest transient name of a session is stored."""
    return _TRANSIENT.fullmatch(name) is not None


def attributes(configuration: Configuration, application: RequestingApplication, subject: SamlSubject) -> Mapping[str, Sequence[str]]:
    """The attributes of the assertion."""
    told: dict[str, list[str]] = {}
    for one in saml_said(configuration, application, subject):
        if isinstance(one, ToldClaim):
            told.setdefault(one.name, []).extend(_texts(one.value))
    return told


def told_by_assertion(meeting: Meeting, subject: SamlSubject) -> Mapping[str, Json]:
    """What the service provider learns. A request may ask for the address as a name at any time."""
    return {"email": subject.email, "attributes": attributes(meeting.configuration, meeting.application, subject)}


def saml_said(configuration: Configuration, application: RequestingApplication, subject: SamlSubject) -> Sequence[Said]:
    """The attributes of the configuration's mapping, and those that the service has configured as claims, each with its source. An
    assertion is made only for a person who has allowed all of it.
    """
    person = DescribedPerson(
        user=subject.user,
        email=Email(subject.email),
        email_is_verified=subject.email_is_verified,
        organization=application.organization,
        organization_slug=application.organization_slug,
        role=subject.role,
        profile=subject.profile,
        facts=subject.facts,
    )
    known_values = _known(application, person)
    said: list[Said] = []
    for source, name in configuration.attributes.items():
        value, origin, scope = known_values[source]
        said.append(ToldClaim(name, value, origin, source, scope) if value else WithheldClaim(name, origin, _MISSING[origin], scope))
    return [*said, *map(_in_words, service_told(ClaimPlace.SAML, person, SCOPES))]


def _in_words(one: Said) -> Said:
    """Withholds a claim that would be an attribute without a value: an empty text or list, or an object, for which SAML has no form."""
    if isinstance(one, WithheldClaim) or _texts(one.value):
        return one
    return WithheldClaim(one.name, one.source, _NO_TEXT, one.scope)


_NO_TEXT: Final = "An assertion has no attribute for a value without a text"


# The source of each value, and the scope that tells the person's own values to applications of OpenID Connect.
_Known = tuple[Json, str, str | None]


def _known(application: RequestingApplication, person: DescribedPerson) -> Mapping[str, _Known]:
    return {
        Source.EMAIL: (person.email.address, OF_ACCOUNT, EMAIL),
        Source.ID: (str(person.user), OF_ACCOUNT, None),
        Source.NAME: (person.profile.name, OF_PROFILE, PROFILE),
        Source.FIRST_NAME: (person.profile.given_name, OF_PROFILE, PROFILE),
        Source.LAST_NAME: (person.profile.family_name, OF_PROFILE, PROFILE),
        Source.ORGANIZATION: (application.organization_slug, ClaimSource.ORGANIZATION, None),
        Source.ORGANIZATION_NAME: (application.organization_name, ClaimSource.ORGANIZATION, None),
        Source.ROLE: (person.role, OF_MEMBERSHIP, ORGANIZATION),
        Source.GROUPS: (groups(person.organization_slug, person.role, person.facts.teams), OF_MEMBERSHIP, ORGANIZATION),
    }


_MISSING: Final[Mapping[str, str]] = {
    OF_PROFILE: "The person has not set it",
    OF_MEMBERSHIP: "The person is not a member of the organization",
}


def _texts(value: Json) -> Sequence[str]:
    """A value as the texts of an attribute."""
    match value:
        case None | "":
            return ()
        case bool():
            return ("true" if value else "false",)
        case str():
            return (value,)
        case int() | float():
            return (str(value),)
        case Mapping():
            return ()
        case _:
            return [text for inner in value for text in _texts(inner)]

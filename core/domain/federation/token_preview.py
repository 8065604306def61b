"""The preview of a token: what an application would receive about a user today, the source of each claim, and why others are missing."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from core.domain.claims import (
    OF_TOKEN,
    ClaimPlace,
    Said,
    ServiceFacts,
    StandardProfile,
    ToldClaim,
    WithheldClaim,
    needs_scope,
)
from core.domain.federation.oauth.authorization_steps import RequestingApplication
from core.domain.federation.oauth.grants import Granted
from core.domain.federation.oauth.oidc import SCOPE_OF, granted_person, id_said, missing, person_said
from core.domain.federation.oauth.resources import EMAIL, OPENID, PROFILE, SCOPES, known
from core.domain.federation.saml.configurations import Configuration
from core.domain.federation.saml.sign_in import SamlSubject, saml_said
from core.domain.identifiers import ClientId, SessionId, UserId
from core.domain.identity.sessions import Application, Context, OpenedSession, Session, SubscriptionState, access_said
from core.domain.mail import Email
from core.domain.secrets import Token
from core.domain.services.services import SignInPolicy
from core.frozen import Frozen, replace, shared

PEOPLE_ON_A_PAGE: Final = 50
"""The people of one answer to the question who can open a service."""
MOST_VERDICTS: Final = 100
"""The services of one organization that a person's page tells about."""
# What the person keeps. Everything else is the organization's own knowledge.
_OF_PERSON: Final = frozenset((OPENID, PROFILE, EMAIL))
_OF_EACH_TOKEN: Final = frozenset(("exp", "iat", "jti", "sid", "at_hash", "nonce", "auth_time", "amr", "acr", "session_expiry"))
_EACH_DIFFERS: Final = "Each token has its own"


class SignInRule(StrEnum):
    """The rule that decides whether the person can sign in to the service."""

    ACCOUNT_DEACTIVATED = "account_deactivated"
    ORGANIZATION_NOT_ACTIVE = "organization_not_active"
    ANYONE = "policy_anyone"
    MEMBERS = "policy_members"
    ASSIGNED = "policy_assigned"
    SECOND_FACTOR_REQUIRED = "second_factor_required"
    TERMS_REQUIRED = "terms_required"


_RULE_OF: Final[Mapping[SignInPolicy, SignInRule]] = {
    SignInPolicy.ANYONE: SignInRule.ANYONE,
    SignInPolicy.MEMBERS: SignInRule.MEMBERS,
    SignInPolicy.ASSIGNED: SignInRule.ASSIGNED,
}


class ConsentState(StrEnum):
    """How the person consented to sharing their own values with the service."""

    GIVEN = "given"
    SPARED = "spared"
    """The organization trusts the service, and the person is its member by their own act."""
    MISSING = "missing"
    """The next sign-in asks for it."""


class PreviewedPerson(Frozen, kw_only=True):
    """A person, a service, and everything between the two that tokens depend on."""

    application: RequestingApplication
    client: ClientId
    user: UserId
    email: Email
    email_is_verified: bool
    is_platform_owner: bool
    is_deactivated: bool
    is_own_member: bool
    is_own_user: bool
    """The person has made the use of the service their own."""
    is_admitted: bool
    """The sign-in policy admits the person."""
    owes_second_factor: bool
    owes_terms: bool
    consented: Sequence[str] | None
    """The scopes that the person has allowed by OpenID Connect. None when the person has allowed nothing."""
    profile: StandardProfile
    facts: ServiceFacts
    subscription: SubscriptionState
    configuration: Configuration | None
    """The SAML configuration of the service, if there is one."""
    saml_allowed: str | None
    saml_scopes: Sequence[str]

    @property
    def for_organization(self) -> "PreviewedPerson":
        """The person as the service's organization may know them. An organization can list anybody, so it does not learn of a listed person
        whether the account is deactivated, whether it has a second factor, and which terms the person has accepted.
        """
        return replace(
            self,
            is_deactivated=self.is_deactivated and (self.is_own_member or self.is_own_user),
            owes_second_factor=self.owes_second_factor and self.is_own_member,
            owes_terms=self.owes_terms and (self.is_own_member or self.is_own_user),
        )

    @property
    def consent(self) -> ConsentState:
        if self.application.trusted and self.is_own_member and not self.application.is_agent:
            return ConsentState.SPARED
        return ConsentState.MISSING if self.consented is None else ConsentState.GIVEN

    @property
    def allowed(self) -> Sequence[str]:
        """The scopes of the person's own values that the service gets."""
        return SCOPES if self.consent is ConsentState.SPARED else (self.consented or ())

    @property
    def allowed_by_saml(self) -> Sequence[str]:
        if self.is_own_member:
            return SCOPES
        is_theirs = self.configuration is not None and self.saml_allowed is not None and self.saml_allowed == self.configuration.entity_id
        return (OPENID, EMAIL, *self.saml_scopes) if is_theirs else ()


class SignInVerdict(Frozen):
    may_sign_in: bool
    rule: SignInRule
    because: str
    outside_unknown: bool = False
    """The organization merely lists the person: a lock, a second factor, the installation's terms and rules are outside of it, and it does
    not learn of them. It holds for all whom it lists, whether anything keeps them out or not, so it tells nothing.
    """


class ServiceAccess(Frozen):
    """A person whom a service admits, what decides it, and the rights that the person has there."""

    person: PreviewedPerson
    verdict: SignInVerdict

    @property
    def roles(self) -> Sequence[str]:
        """Of the service, by the person's own assignment or by a team's."""
        return self.person.facts.roles

    @property
    def teams(self) -> Sequence[str]:
        return self.person.facts.teams

    @property
    def plan(self) -> str:
        return self.person.facts.plan


class TokenPreview(Frozen):
    """The code that makes tokens makes the preview, too."""

    user: UserId
    verdict: SignInVerdict
    consent: ConsentState
    scopes: Sequence[str]
    """The scopes of the previewed tokens."""
    places: Mapping[ClaimPlace, Sequence[Said]]


_subject: Final = shared(PreviewedPerson, SamlSubject, "email")


def token_preview(person: PreviewedPerson, asked: Sequence[str], *, issuer: str, now: datetime, lifetime: timedelta) -> TokenPreview:
    """The preview for an application that asks for these scopes. The person's own values are told only for scopes that the person has
    allowed. What the organization knows itself needs no consent.
    """
    scopes = tuple(scope for scope in known(asked) if scope not in _OF_PERSON or scope == OPENID or scope in person.allowed)
    granted = _granted(person, scopes, now)
    expires_at = now + lifetime
    id_token = id_said(
        granted,
        client=person.client,
        access_token=Token(""),
        issuer=issuer,
        now=now,
        expires_at=expires_at,
        session_lifetime=person.application.session_lifetime,
    )
    userinfo = person_said(scopes, granted_person(granted), ClaimPlace.USERINFO, issuer=issuer)
    access_token = access_said(granted.opened, issuer=issuer, token_id="", now=now, lifetime=lifetime)
    places = {
        ClaimPlace.ID_TOKEN: [*_shown(id_token, person.allowed), *_missing(id_token, scopes, asked)],
        ClaimPlace.USERINFO: [*_shown(userinfo, person.allowed), *_missing(userinfo, scopes, asked)],
        ClaimPlace.ACCESS_TOKEN: _shown(access_token, person.allowed),
    }
    if person.configuration is not None and person.configuration.enabled:
        subject = SamlSubject(**_subject(person), email=person.email.address, role=person.facts.role)
        places[ClaimPlace.SAML] = _shown(saml_said(person.configuration, person.application, subject), person.allowed_by_saml)
    return TokenPreview(person.user, verdict(person), person.consent, scopes, places)


def verdict(person: PreviewedPerson) -> SignInVerdict:
    """Whether the person may sign in to the service, and the rule that decides."""
    return replace(_decided(person), outside_unknown=not (person.is_own_member or person.is_own_user))


def _decided(person: PreviewedPerson) -> SignInVerdict:
    policy = person.application.sign_in_policy
    if person.is_deactivated:
        return SignInVerdict(False, SignInRule.ACCOUNT_DEACTIVATED, "The account is deactivated")
    if not person.application.organization_is_active:
        return SignInVerdict(False, SignInRule.ORGANIZATION_NOT_ACTIVE, "The organization is not active")
    if not person.is_admitted:
        return SignInVerdict(False, _RULE_OF[policy], _REFUSES[policy])
    if person.owes_second_factor:
        required = "The organization requires a second factor, and the time to set one up is over"
        return SignInVerdict(False, SignInRule.SECOND_FACTOR_REQUIRED, required)
    if person.owes_terms:
        asked = "The person has not accepted terms of the organization or of the installation, and the time to accept them is over"
        return SignInVerdict(False, SignInRule.TERMS_REQUIRED, asked)
    return SignInVerdict(True, _RULE_OF[policy], _ADMITS[policy])


_ADMITS: Final[Mapping[SignInPolicy, str]] = {
    SignInPolicy.ANYONE: "Anyone with an account can sign in to the service",
    SignInPolicy.MEMBERS: "Members can sign in to the service, and the person is a member",
    SignInPolicy.ASSIGNED: "A role of the service is assigned to the person",
}
_REFUSES: Final[Mapping[SignInPolicy, str]] = {
    SignInPolicy.ANYONE: "Anyone with an account can sign in to the service",
    SignInPolicy.MEMBERS: "Only members can sign in to the service, and the person is not a member",
    SignInPolicy.ASSIGNED: "Only people with an assigned role can sign in to the service, and the person has none",
}


def _granted(person: PreviewedPerson, scopes: tuple[str, ...], now: datetime) -> Granted:
    application = person.application
    context = Context(application.organization, application.organization_slug, application.service, application.slug)
    nobodys = SessionId(UUID(int=0))
    session = Session(nobodys, person.user, now, now, now + timedelta(days=1), now + timedelta(days=1), context=context, scopes=scopes)
    opened = OpenedSession(
        session,
        person.email,
        person.is_platform_owner,
        Token(""),
        person.subscription,
        Application(person.client, scopes),
        facts=person.facts,
    )
    return Granted(opened, person.email_is_verified, person.facts.role, profile=person.profile)


def _missing(said: Sequence[Said], scopes: Sequence[str], asked: Sequence[str]) -> Sequence[WithheldClaim]:
    return [
        WithheldClaim(one.name, one.source, _not_allowed(scope)) if (scope := SCOPE_OF[one.name]) in asked else one
        for one in missing(said, scopes)
    ]


def _shown(said: Sequence[Said], allowed: Sequence[str]) -> Sequence[Said]:
    return [_one_shown(one, allowed) for one in said]


def _one_shown(one: Said, allowed: Sequence[str]) -> Said:
    if isinstance(one, WithheldClaim):
        return WithheldClaim(one.name, one.source, _not_allowed(str(one.scope))) if _is_private(one, allowed) else one
    if one.source == OF_TOKEN and one.name in _OF_EACH_TOKEN:
        return WithheldClaim(one.name, one.source, _EACH_DIFFERS)
    return WithheldClaim(one.name, one.source, _not_allowed(str(one.scope))) if _is_private(one, allowed) else one


def _is_private(one: Said, allowed: Sequence[str]) -> bool:
    """The person's own value, which the person has not allowed the application to learn."""
    return one.scope in _OF_PERSON and one.scope not in allowed


def _not_allowed(scope: str) -> str:
    return f"{needs_scope(scope)}: the person has not allowed the application to learn it"


def told_in(said: Sequence[Said]) -> Sequence[ToldClaim]:
    return [one for one in said if isinstance(one, ToldClaim)]


def missing_in(said: Sequence[Said]) -> Sequence[WithheldClaim]:
    return [one for one in said if isinstance(one, WithheldClaim)]

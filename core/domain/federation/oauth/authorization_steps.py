"""The steps between an authorization request and its code."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Final

from core.domain.branding import POSTERN, Branding
from core.domain.errors import OrganizationNotActive
from core.domain.federation.oauth.authorization_codes import ApprovedAuthorization
from core.domain.federation.oauth.authorizations import (
    AuthorizationErrorCode,
    AuthorizationPrompt,
    AuthorizationRefused,
    AuthorizationRequest,
    Registered,
    ResponseMode,
    proves_nothing,
)
from core.domain.federation.oauth.consents import UnplacedClient
from core.domain.federation.oauth.refusals import RefusalReason
from core.domain.formats import Json
from core.domain.identifiers import OrganizationId, ResourceServerId, ServiceId, SessionId, UserId
from core.domain.identity.callers import Caller
from core.domain.identity.devices import Client
from core.domain.identity.flows import Flow
from core.domain.identity.guards.hook_verdicts import (
    AskingDoor,
    FlowAskedEnough,
    HookFactor,
    HooksBusy,
    HookVerdict,
    RefusedByHook,
    Tells,
    service_door,
)
from core.domain.identity.proofs import Proved
from core.domain.identity.sessions import ONE_FACTOR, TWO_FACTORS, context_class
from core.domain.identity.sign_in import SESSION_PROVIDER
from core.domain.key_proofs import lacks_key
from core.domain.mail import Email
from core.domain.services.services import SignInPolicy
from core.domain.tenancy.sign_in_rules import grace_is_over
from core.domain.tokens import TokenAudience
from core.frozen import Frozen, replace, shared

# The description of the refusal, by which the refusals of a service tell it from the person's own no.
NO_APPLICATIONS: Final = "The identity provider of this person does not allow sign-in to applications (ProxyRestriction)"


class RequestingApplication(Frozen, kw_only=True):
    """A service, as the pages know it when somebody is sent here to sign in to it."""

    service: ServiceId
    organization: OrganizationId
    organization_slug: str
    organization_name: str
    organization_is_active: bool
    slug: str
    name: str
    registered: Registered
    post_logout_redirect_uris: Sequence[str] = ()
    sign_in_policy: SignInPolicy = SignInPolicy.ANYONE
    trusted: bool = False
    """Members of the service's own organization are not asked for consent, if they have joined or confirmed the membership themselves."""
    is_agent: bool = False
    """It acts for people at APIs."""
    agents_allowed: bool = True
    """Its organization lets agents act for people."""
    logo: str | None = None
    """The path of its own picture. None when it has none, or when its own document describes it."""
    branding: Branding = POSTERN
    """The looks of its organization: the pages between the request and the code have them."""
    session_lifetime: timedelta | None = None
    """How long its organization lets sessions last after the sign-in. None when the organization sets no limit."""
    unplaced: UnplacedClient | None = None
    """A client that nobody has placed yet. Then `service` is the id that its service gets, and no row names it."""

    @property
    def kept_service(self) -> ServiceId | None:
        """The service that a row may name."""
        return None if self.unplaced is not None else self.service

    @property
    def asked_api(self) -> ResourceServerId | None:
        """The API whose owners read of refusals while the client has no service."""
        return None if self.unplaced is None else self.unplaced.api


class SignedInPerson(Frozen, kw_only=True):
    """The person of a browser's session, and the person's relation to the application."""

    user: UserId
    email: str
    session: SessionId
    proved_at: datetime
    """When the person last came to this browser with a proof."""
    stated_at: datetime | None = None
    """When the person signed in at a provider; see `Proved.stated_at`."""
    refuses_applications: bool = False
    """The directory that vouched for the person lets us sign them in to no application."""
    authenticated_by: tuple[str, ...]
    has_second_factor: bool
    is_member: bool
    """Whether the person is a member of the application's organization."""
    is_assigned: bool = False
    """Whether a role of the service is assigned to the person. False also where the service does not ask for one."""
    is_own_member: bool = False
    """The person has made or confirmed this membership: the organization has not merely listed the person."""
    second_factor_due: datetime | None = None
    """A member who has to set up a second factor can do so until this moment. None when the organization asks nothing of the member."""
    is_kept_out: bool = False
    """The rules for risk of the application's organization do not let this session in."""
    has_hooks: bool = False
    """Hooks are to be asked before the application gets anything."""
    terms_due: datetime | None = None
    """Until when the person may go on without accepting terms of the organization or of the installation. None when nothing is missing."""
    consented: Sequence[str] | None
    """The scopes that the person has allowed the application. None when the application never asked, or the person has
    revoked the consent.
    """
    owes_answer: bool = False
    """The request names an API, and the person has not said yet what the application may do there."""

    @property
    def proved(self) -> Proved:
        return Proved(self.proved_at, stated_at=self.stated_at)

    @property
    def authenticated_at(self) -> datetime:
        """The time that an assertion has to name. Of a sign-in at a provider that states no time, it is when the person came from there."""
        return self.proved_at if self.stated_at is None or self.proved.is_silent else self.stated_at

    @property
    def is_listed(self) -> bool:
        """The organization has listed the person as a member, and the person has not confirmed it."""
        return self.is_member and not self.is_own_member


class Progress(Frozen):
    """The steps that the person has already taken for this request."""

    began: datetime | None = None
    """When the request was stored for a person who had to do something. None when the request has just arrived."""
    account_chosen: bool = False
    consented: bool = False
    set_up_later: bool = False
    """The page has asked the person for a second factor, and the person has time to set it up."""
    asked_membership: bool = False
    """The page has asked whether the person belongs to the application's organization. The person may answer another time."""
    cannot_prove: bool = False
    """The page that asks for a fresh proof has found no way in which the person could give one."""
    signals: bytes | None = None
    """What the page has shown of signals, as a digest. It counts with `consented`."""
    must_choose: bool = False
    """Several accounts are signed in in this browser, and nothing says which of them the application gets; see `must_choose`."""


class AuthorizationStep(Enum):
    CREATE = auto()
    """Register an account."""
    SIGN_IN = auto()
    PROVE = auto()
    """The person has signed in, but the provider does not say that they have done so lately."""
    SECOND_FACTOR = auto()
    """Sign in again, with both factors."""
    CHOOSE_ACCOUNT = auto()
    CONFIRM_MEMBERSHIP = auto()
    """The application's organization lists the person as its member. The page asks whether this is right, and the
    person may put the answer off.
    """
    SET_UP_SECOND_FACTOR = auto()
    """The organization requires a second factor of this member. Until the grace period is over, the person may put it off."""
    ACCEPT_TERMS = auto()
    """The time to accept terms of the organization, or of the installation, is over."""
    CONSENT = auto()
    TURN_AWAY = auto()
    """The sign-in policy of the application does not admit the person."""
    DONE = auto()
    """No step is left: the application gets its code."""


def require_open(request: AuthorizationRequest, application: RequestingApplication) -> None:
    """Raises `OrganizationNotActive`, for the person's page. With `prompt=none` raises `AuthorizationRefused`, for the application."""
    if application.organization_is_active:
        return
    if AuthorizationPrompt.NONE in request.prompts:
        raise AuthorizationRefused(AuthorizationErrorCode.ACCESS_DENIED, "The organization of this application is not active")
    raise organization_closed()


def organization_closed() -> OrganizationNotActive:
    return OrganizationNotActive("The organization of this application is not active", words="application_closed")


def require_redeemable(request: AuthorizationRequest, registered: Registered) -> None:
    """Refuses a request whose code nobody could redeem, before anybody signs in for it. Raises `AuthorizationRefused`."""
    in_code = request.recipient.response_mode is not ResponseMode.FRAGMENT
    if in_code and not registered.authenticates and not registered.may_be_public:
        raise AuthorizationRefused(
            AuthorizationErrorCode.UNAUTHORIZED_CLIENT,
            "A service of the type api needs a client secret or keys: without them it cannot redeem a code",
        )
    if not in_code and lacks_key(binds_tokens=registered.binds_tokens, key=None):
        raise AuthorizationRefused(
            AuthorizationErrorCode.UNAUTHORIZED_CLIENT,
            "The tokens of this service are bound to a key: request a code (code_challenge), and redeem it with a DPoP proof",
        )


def insists_on_sign_in(request: AuthorizationRequest) -> bool:
    """Whether a person who has signed in before, here or at a provider, must sign in again."""
    return AuthorizationPrompt.LOGIN in request.prompts


def next_step(
    request: AuthorizationRequest, application: RequestingApplication, signed_in: SignedInPerson | None, progress: Progress, now: datetime
) -> AuthorizationStep:
    """Decides about the next step, for each request, and again after each step.

    The step that comes next. Raises `AuthorizationRefused`, for the application, in three cases: something is missing and nobody may be
    asked (`prompt=none`), another person signed in than the application expects, and the person has no second factor to show.
    """
    if AuthorizationPrompt.NONE in request.prompts and signed_in is not None and _must_consent(request, application, signed_in, progress):
        # The consent comes before every check that depends on the person. Otherwise an application could find out about any visitor whether
        # the visitor is the person that it names, when the visitor signed in, and with what.
        raise AuthorizationRefused(*_UNASKED[AuthorizationStep.CONSENT])
    step = _step(request, application, signed_in, progress, now)
    if AuthorizationPrompt.NONE in request.prompts and step is not AuthorizationStep.DONE:
        raise AuthorizationRefused(*_UNASKED[step])
    return step


def door_of(
    application: RequestingApplication,
    signed_in: SignedInPerson,
    tells: Tells,
    scopes: Sequence[str] = (),
    *,
    way: str = SESSION_PROVIDER,
    flow: Flow | None = None,
    sender: Client | None = None,
    consents: bool = False,
    is_hidden: bool = False,
) -> AskingDoor:
    """The application's door, at which hooks are asked as the last of all. `tells`: what the application may see, by its `scopes` where it
    has some. `consents`: the person has just allowed the application.
    """
    # Of what goes on from a session, the organization's own log has neither address nor device.
    came_here = flow is not None and flow.sign_in_is_logged and flow.session == signed_in.session
    named: Mapping[str, Json] = {"client_id": application.registered.client_id, "slug": application.slug, "name": application.name}
    door = service_door(
        signed_in.user,
        application.organization,
        application.service,
        tells,
        way=way if flow is None or not came_here else flow.signed_in_by or way,
        authenticated_by=signed_in.authenticated_by,
        scopes=scopes,
        session=signed_in.session,
    )
    return replace(
        door,
        unplaced=None if application.unplaced is None else named,
        consents=consents,
        is_hidden=is_hidden,
        flow=None if flow is None else flow.id,
        came=sender if came_here else None,
        came_after=None if flow is None else flow.created_at,
    )


def step_after(heard: HookVerdict, request: AuthorizationRequest, signed_in: SignedInPerson, progress: Progress) -> AuthorizationStep:
    """What hooks ask for, or `DONE`. Raises `RefusedByHook` for the person, and `AuthorizationRefused` for the application where nobody may
    be asked: a hidden tab shows no page.
    """
    if heard.lets_in:
        return AuthorizationStep.DONE
    is_hidden = AuthorizationPrompt.NONE in request.prompts
    can_ask = heard.no is None and not heard.is_silent and heard.owes is not None and heard.can_show
    if can_ask and is_hidden:
        raise AuthorizationRefused(*_UNASKED[AuthorizationStep.SECOND_FACTOR])
    if can_ask and heard.owes is HookFactor.SECOND_FACTOR:
        return AuthorizationStep.SECOND_FACTOR
    afresh = progress.began is not None and signed_in.proved_at >= progress.began
    if can_ask and not afresh:
        return AuthorizationStep.SIGN_IN
    if is_hidden:
        raise AuthorizationRefused(AuthorizationErrorCode.ACCESS_DENIED, "The organization has refused this sign-in")
    raise RefusedByHook(heard)


def unasked_in_hiding(refusal: HooksBusy | FlowAskedEnough) -> AuthorizationRefused:
    """For the application, where no page may be shown to the person."""
    return AuthorizationRefused(AuthorizationErrorCode.TEMPORARILY_UNAVAILABLE, refusal.message)


_of_request: Final = shared(AuthorizationRequest, ApprovedAuthorization, "scopes", "pushed")
_of_person: Final = shared(SignedInPerson, ApprovedAuthorization)


def approved_authorization(
    request: AuthorizationRequest,
    application: RequestingApplication,
    signed_in: SignedInPerson,
    *,
    provider: str,
    audiences: Sequence[TokenAudience],
    pushed: bytes | None = None,
) -> ApprovedAuthorization:
    """Returns what a code for this request stands for, once no step is left. `pushed` is the pushed request that the code uses up."""
    return ApprovedAuthorization(
        **_of_request(request),
        **_of_person(signed_in),
        service=application.service,
        parent=signed_in.session,
        redirect_uri=request.recipient.redirect_uri,
        scopes=request.granted_scopes,
        auth_time=signed_in.proved_at,
        provider=provider,
        audiences=audiences,
        pushed=pushed,
    )


def wants_second_factor(request: AuthorizationRequest) -> bool:
    """Any one of several values is enough (OpenID Connect Core, section 3.1.2.1). Unknown values are ignored."""
    return TWO_FACTORS in request.acr_values and ONE_FACTOR not in request.acr_values


def must_choose(request: AuthorizationRequest, current: Caller | None, others: Sequence[Caller]) -> bool:
    """Whether the person has to say which of several accounts in this browser the application gets. A request that names the account in use
    needs no question. One that names another account here never takes that account by itself: any site can send a browser with a name.
    Where nobody may be asked, an application must not learn whether the person of an ID token is here, but has allowed it nothing.
    """
    if not others:
        return False
    if request.subject is not None:
        is_here = (current is None or current.user != request.subject) and named_account(request, others) is not None
        return is_here and AuthorizationPrompt.NONE not in request.prompts
    return current is None or named_account(request, [current]) is None


def named_account(request: AuthorizationRequest, accounts: Sequence[Caller]) -> Caller | None:
    """The account that the request names, by an ID token or a claim, or else by its address."""
    if request.subject is not None:
        return next((one for one in accounts if one.user == request.subject), None)
    hint = request.login_hint
    if hint is None or "@" not in hint:
        return None
    return next((one for one in accounts if one.email.key == Email(hint.strip()).key), None)


def has_consented(request: AuthorizationRequest, application: RequestingApplication, signed_in: SignedInPerson) -> bool:
    """Whether the person has nothing to allow any more before this application gets its answer."""
    return not _must_consent(request, application, signed_in, Progress())


def relies_on_consent(application: RequestingApplication, signed_in: SignedInPerson) -> bool:
    """Whether the person's own consent is needed, and the organization's trust is not enough. An organization can list anybody as its
    member, so its trust counts only for people who have joined or confirmed the membership themselves. Trust lets no agent act for anybody.
    """
    return application.is_agent or not (application.trusted and signed_in.is_own_member)


def _step(
    request: AuthorizationRequest, application: RequestingApplication, signed_in: SignedInPerson | None, progress: Progress, now: datetime
) -> AuthorizationStep:
    creates = AuthorizationPrompt.CREATE in request.prompts
    asks = progress.must_choose and not progress.account_chosen and not creates
    if signed_in is None or asks:
        whose = AuthorizationStep.CHOOSE_ACCOUNT if asks else AuthorizationStep.SIGN_IN
        return AuthorizationStep.CREATE if creates else whose
    # The person signed in for this request, and not before it.
    afresh = progress.began is not None and signed_in.proved_at >= progress.began
    if (step := _sign_in_step(request, application, signed_in, progress, now, afresh=afresh)) is not None:
        return step
    if request.subject not in {None, signed_in.user}:
        raise AuthorizationRefused(AuthorizationErrorCode.LOGIN_REQUIRED, "Another person has signed in than the application expects")
    if signed_in.refuses_applications:
        raise AuthorizationRefused(AuthorizationErrorCode.ACCESS_DENIED, NO_APPLICATIONS, recorded_as=RefusalReason.DIRECTORY_RESTRICTS)
    if not application.sign_in_policy.admits(is_member=signed_in.is_member, is_assigned=signed_in.is_assigned):
        return AuthorizationStep.TURN_AWAY
    if wants_second_factor(request) and not _has_shown_both(signed_in):
        return _second_factor_step(request, application, signed_in, progress)
    if (step := _member_step(request, application, signed_in, progress, now, afresh=afresh)) is not None:
        return step
    return AuthorizationStep.CONSENT if _must_consent(request, application, signed_in, progress) else AuthorizationStep.DONE


def _member_step(
    request: AuthorizationRequest,
    application: RequestingApplication,
    signed_in: SignedInPerson,
    progress: Progress,
    now: datetime,
    *,
    afresh: bool,
) -> AuthorizationStep | None:
    """The steps of members of the application's organization, and then the terms, which concern everybody."""
    if _is_asked_membership(request, application, signed_in, progress, afresh=afresh):
        return AuthorizationStep.CONFIRM_MEMBERSHIP
    if _must_set_up(request, signed_in.second_factor_due, progress, now, afresh=afresh):
        return AuthorizationStep.SET_UP_SECOND_FACTOR
    # Until then, the sign-in asks.
    owes_terms = signed_in.terms_due is not None and signed_in.terms_due <= now
    return AuthorizationStep.ACCEPT_TERMS if owes_terms else None


def _is_asked_membership(
    request: AuthorizationRequest, application: RequestingApplication, signed_in: SignedInPerson, progress: Progress, *, afresh: bool
) -> bool:
    """The question about the membership comes at a sign-in, and when the answer may save the person the question for consent. It never
    comes when nobody may be asked.
    """
    if not signed_in.is_listed or progress.asked_membership or AuthorizationPrompt.NONE in request.prompts:
        return False
    own = replace(signed_in, is_own_member=True)
    return afresh or (_must_consent(request, application, signed_in, progress) and not _must_consent(request, application, own, progress))


def _must_set_up(request: AuthorizationRequest, due: datetime | None, progress: Progress, now: datetime, *, afresh: bool) -> bool:
    """Within the grace period, people are reminded when they sign in. With `prompt=none` nobody is reminded."""
    if due is None:
        return False
    return grace_is_over(due, now) or (afresh and not progress.set_up_later and AuthorizationPrompt.NONE not in request.prompts)


def _sign_in_step(
    request: AuthorizationRequest,
    application: RequestingApplication,
    signed_in: SignedInPerson,
    progress: Progress,
    now: datetime,
    *,
    afresh: bool,
) -> AuthorizationStep | None:
    """The step that a session from before the request still needs, or a sign-in that shows too little. None when nothing is missing."""
    if signed_in.is_kept_out:
        # A sign-in for this request is judged by the rules, and one that they refuse opens no session.
        return AuthorizationStep.SIGN_IN
    if afresh and progress.began is not None:
        if _shows_when(request, signed_in, progress.began, now):
            return None
        if progress.cannot_prove:
            raise AuthorizationRefused(AuthorizationErrorCode.LOGIN_REQUIRED, "The person cannot show a recent sign-in")
        return AuthorizationStep.PROVE
    if AuthorizationPrompt.CREATE in request.prompts:
        return AuthorizationStep.CREATE
    if not progress.account_chosen and (
        AuthorizationPrompt.SELECT_ACCOUNT in request.prompts or _names_somebody_else(request.login_hint, signed_in)
    ):
        return AuthorizationStep.CHOOSE_ACCOUNT
    age, lifetime = now - signed_in.proved_at, application.session_lifetime
    too_old = not _is_young_enough(request, signed_in, now) or (lifetime is not None and age >= lifetime)
    somebody_else = request.subject not in {None, signed_in.user}
    return AuthorizationStep.SIGN_IN if too_old or somebody_else or AuthorizationPrompt.LOGIN in request.prompts else None


def _is_young_enough(request: AuthorizationRequest, signed_in: SignedInPerson, now: datetime) -> bool:
    shown_at = signed_in.proved.shown_at
    return request.max_age is None or (shown_at is not None and now - shown_at <= timedelta(seconds=request.max_age))


def _shows_when(request: AuthorizationRequest, signed_in: SignedInPerson, began: datetime, now: datetime) -> bool:
    """Whether a sign-in for this request shows what the application asks about its time. A provider may have vouched for somebody who had
    signed in there before, or may say nothing about the time.
    """
    if signed_in.proved.is_afresh(began):
        return True
    return AuthorizationPrompt.LOGIN not in request.prompts and _is_young_enough(request, signed_in, now)


def _second_factor_step(
    request: AuthorizationRequest, application: RequestingApplication, signed_in: SignedInPerson, progress: Progress
) -> AuthorizationStep:
    if signed_in.has_second_factor:
        return AuthorizationStep.SECOND_FACTOR
    if _must_consent(request, application, signed_in, progress):
        # The refusal below tells the application something about the person, so the person has to consent first.
        return AuthorizationStep.CONSENT
    raise AuthorizationRefused(AuthorizationErrorCode.UNMET_REQUIREMENTS, "The person has no second factor")


def _names_somebody_else(login_hint: str | None, signed_in: SignedInPerson) -> bool:
    """An application that has asked for an address must not get another person without a question. A hint that is no address is ignored."""
    return login_hint is not None and "@" in login_hint and Email(login_hint.strip()).key != Email(signed_in.email).key


def _has_shown_both(signed_in: SignedInPerson) -> bool:
    return context_class(signed_in.authenticated_by) == TWO_FACTORS


def _must_consent(request: AuthorizationRequest, application: RequestingApplication, signed_in: SignedInPerson, progress: Progress) -> bool:
    if progress.consented:
        return False
    # An owner may have named other events and hosts since the person was asked last.
    if request.signal_scopes or AuthorizationPrompt.CONSENT in request.prompts or proves_nothing(request.recipient.redirect_uri):
        return True
    if not relies_on_consent(application, signed_in):
        return False
    return signed_in.owes_answer or signed_in.consented is None or not set(signed_in.consented).issuperset(request.scopes)


# OpenID Connect Core, section 3.1.2.6. The step CREATE is missing, because `none` cannot be combined with `create`.
_UNASKED: Final = {
    AuthorizationStep.SIGN_IN: (AuthorizationErrorCode.LOGIN_REQUIRED, "No one is signed in, or the sign-in is too old"),
    AuthorizationStep.PROVE: (AuthorizationErrorCode.LOGIN_REQUIRED, "No sign-in is recent enough"),
    AuthorizationStep.SECOND_FACTOR: (AuthorizationErrorCode.INTERACTION_REQUIRED, "MFA is required"),
    AuthorizationStep.CHOOSE_ACCOUNT: (
        AuthorizationErrorCode.ACCOUNT_SELECTION_REQUIRED,
        "The person has to choose an account",
    ),
    AuthorizationStep.SET_UP_SECOND_FACTOR: (
        AuthorizationErrorCode.INTERACTION_REQUIRED,
        "The person has to set up a second factor for this organization",
    ),
    AuthorizationStep.ACCEPT_TERMS: (AuthorizationErrorCode.INTERACTION_REQUIRED, "The person has to accept terms"),
    AuthorizationStep.CONSENT: (AuthorizationErrorCode.CONSENT_REQUIRED, "Consent is required"),
    AuthorizationStep.TURN_AWAY: (
        AuthorizationErrorCode.ACCESS_DENIED,
        "The application is for members of its organization, or for people who have a role in it",
    ),
}

"""The remaining steps before an application gets its code."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from core.domain.errors import OrganizationNotActive
from core.domain.federation.oauth.authorization_steps import (
    AuthorizationStep,
    Progress,
    RequestingApplication,
    SignedInPerson,
    has_consented,
    next_step,
    require_open,
    require_redeemable,
    wants_second_factor,
)
from core.domain.federation.oauth.authorizations import (
    AuthorizationErrorCode,
    AuthorizationPrompt,
    AuthorizationRefused,
    AuthorizationRequest,
    Recipient,
    Registered,
    ResponseMode,
)
from core.domain.federation.oauth.resources import EMAIL, OPENID, PROFILE, SCOPES
from core.domain.identifiers import ClientId, OrganizationId, ServiceId, SessionId, UserId
from core.domain.identity.proofs import SILENT
from core.domain.identity.sessions import ONE_FACTOR, TWO_FACTORS
from core.domain.services.services import SignInPolicy
from core.frozen import replace

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
CLIENT = ClientId(str(UUID(int=1)))
ASKED = (OPENID, EMAIL)
REQUEST = AuthorizationRequest(client_id=CLIENT, recipient=Recipient("https://app.example.com/callback"), scopes=ASKED)
APPLICATION = RequestingApplication(
    service=ServiceId(UUID(int=2)),
    organization=OrganizationId(UUID(int=3)),
    organization_slug="acme",
    organization_name="Acme",
    organization_is_active=True,
    slug="app",
    name="App",
    registered=Registered(CLIENT, ["https://app.example.com/callback"], is_native=False, authenticates=True),
)
ADA = SignedInPerson(
    user=UserId(UUID(int=4)),
    email="ada@example.org",
    session=SessionId(UUID(int=5)),
    proved_at=NOW - timedelta(hours=1),
    authenticated_by=("pwd",),
    has_second_factor=False,
    is_member=False,
    consented=ASKED,
)
JUST_NOW = replace(ADA, proved_at=NOW)
ARRIVED = Progress()
BEGUN = Progress(NOW - timedelta(minutes=1))


def step(
    who: SignedInPerson | None = ADA, progress: Progress = ARRIVED, application: RequestingApplication = APPLICATION, **asked: Any
) -> AuthorizationStep:
    return next_step(replace(REQUEST, **asked), application, who, progress, NOW)


def refused(
    who: SignedInPerson | None = ADA, progress: Progress = ARRIVED, application: RequestingApplication = APPLICATION, **asked: Any
) -> AuthorizationErrorCode:
    with pytest.raises(AuthorizationRefused) as refusal:
        step(who, progress, application, **asked)
    return refusal.value.word


def prompt(*prompts: AuthorizationPrompt) -> frozenset[AuthorizationPrompt]:
    return frozenset(prompts)


NONE = prompt(AuthorizationPrompt.NONE)


def test_who_has_done_all_before_has_nothing_to_do() -> None:
    assert step() is AuthorizationStep.DONE
    assert step(prompts=NONE) is AuthorizationStep.DONE


def test_whoever_allowed_less_than_is_asked_for_has_not_consented() -> None:
    assert has_consented(REQUEST, APPLICATION, ADA)
    assert not has_consented(replace(REQUEST, scopes=(*ASKED, PROFILE)), APPLICATION, ADA)


def test_a_member_is_reminded_of_the_second_factor_at_the_sign_in_and_must_have_it_when_it_is_due() -> None:
    soon, over = NOW + timedelta(seconds=1), NOW
    member = replace(JUST_NOW, is_member=True, is_own_member=True)
    assert step(replace(member, second_factor_due=soon), BEGUN) is AuthorizationStep.SET_UP_SECOND_FACTOR
    assert step(replace(member, second_factor_due=soon), replace(BEGUN, set_up_later=True)) is AuthorizationStep.DONE
    # People who were signed in already are not asked, nor are those whom the request forbids to ask.
    assert step(replace(ADA, is_member=True, is_own_member=True, second_factor_due=soon)) is AuthorizationStep.DONE
    assert step(replace(member, second_factor_due=soon), BEGUN, prompts=NONE) is AuthorizationStep.DONE
    for who in (replace(member, second_factor_due=over), replace(ADA, is_member=True, is_own_member=True, second_factor_due=over)):
        assert step(who, replace(BEGUN, consented=True, set_up_later=True)) is AuthorizationStep.SET_UP_SECOND_FACTOR
        assert refused(who, prompts=NONE) is AuthorizationErrorCode.INTERACTION_REQUIRED


def test_terms_stop_everybody_from_their_date_on_and_after_the_factor() -> None:
    soon, over = NOW + timedelta(seconds=1), NOW
    # Until then, the sign-in asks.
    assert step(replace(JUST_NOW, terms_due=soon), BEGUN) is AuthorizationStep.DONE
    for who in (replace(JUST_NOW, terms_due=over), replace(ADA, terms_due=over)):
        assert step(who, replace(BEGUN, consented=True)) is AuthorizationStep.ACCEPT_TERMS
        assert refused(who, prompts=NONE) is AuthorizationErrorCode.INTERACTION_REQUIRED
    member = replace(ADA, is_member=True, is_own_member=True, second_factor_due=over, terms_due=over)
    assert step(member) is AuthorizationStep.SET_UP_SECOND_FACTOR


def test_an_organization_says_how_old_a_sign_in_may_be() -> None:
    hour = replace(APPLICATION, session_lifetime=timedelta(hours=1))
    assert step(application=hour) is AuthorizationStep.SIGN_IN
    assert step(JUST_NOW, BEGUN, hour) is AuthorizationStep.DONE
    assert step(replace(ADA, proved_at=NOW - timedelta(minutes=59)), application=hour) is AuthorizationStep.DONE
    assert step(replace(ADA, proved_at=NOW - timedelta(minutes=59)), application=hour, max_age=60) is AuthorizationStep.SIGN_IN
    assert refused(application=hour, prompts=NONE) is AuthorizationErrorCode.LOGIN_REQUIRED


def test_nobody_signs_in_or_creates_an_account() -> None:
    assert step(None) is AuthorizationStep.SIGN_IN
    assert step(None, BEGUN) is AuthorizationStep.SIGN_IN
    assert step(None, prompts=prompt(AuthorizationPrompt.CREATE)) is AuthorizationStep.CREATE
    assert refused(None, prompts=NONE) is AuthorizationErrorCode.LOGIN_REQUIRED


def test_an_application_may_ask_for_a_fresh_sign_in() -> None:
    for asked in (
        prompt(AuthorizationPrompt.LOGIN),
        prompt(AuthorizationPrompt.LOGIN, AuthorizationPrompt.SELECT_ACCOUNT, AuthorizationPrompt.CONSENT),
    ):
        given = Progress(BEGUN.began, account_chosen=True)
        # An earlier session does not count, even if the person comes back with it several times.
        assert step(prompts=asked, progress=given) is AuthorizationStep.SIGN_IN
        assert step(JUST_NOW, prompts=asked, progress=replace(given, consented=True)) is AuthorizationStep.DONE
    assert step(JUST_NOW, prompts=prompt(AuthorizationPrompt.LOGIN)) is AuthorizationStep.SIGN_IN
    assert step(JUST_NOW, BEGUN, prompts=prompt(AuthorizationPrompt.CREATE)) is AuthorizationStep.DONE
    assert step(prompts=prompt(AuthorizationPrompt.CREATE)) is AuthorizationStep.CREATE


@pytest.mark.parametrize(
    ("max_age", "left"),
    [
        (0, AuthorizationStep.SIGN_IN),
        (3599, AuthorizationStep.SIGN_IN),
        (3600, AuthorizationStep.DONE),
        (9_999_999_999, AuthorizationStep.DONE),
    ],
)
def test_a_sign_in_may_be_too_old(max_age: int, left: AuthorizationStep) -> None:
    assert step(max_age=max_age) is left
    assert step(progress=BEGUN, max_age=max_age) is left
    # Once the person has signed in for this request, the step is done, also if they wait long afterwards.
    since = replace(ADA, proved_at=NOW - timedelta(seconds=30))
    assert step(since, BEGUN, max_age=max_age) is AuthorizationStep.DONE
    if left is AuthorizationStep.SIGN_IN:
        assert refused(max_age=max_age, prompts=NONE) is AuthorizationErrorCode.LOGIN_REQUIRED


def test_the_account_is_chosen_where_the_request_says_so_or_names_another() -> None:
    asked = prompt(AuthorizationPrompt.SELECT_ACCOUNT)
    assert step(prompts=asked) is AuthorizationStep.CHOOSE_ACCOUNT
    assert step(prompts=asked, progress=replace(BEGUN, account_chosen=True)) is AuthorizationStep.DONE
    assert step(JUST_NOW, BEGUN, prompts=asked) is AuthorizationStep.DONE
    assert step(login_hint="bob@example.org") is AuthorizationStep.CHOOSE_ACCOUNT
    assert step(login_hint="bob@example.org", progress=replace(BEGUN, account_chosen=True)) is AuthorizationStep.DONE
    assert refused(login_hint="bob@example.org", prompts=NONE) is AuthorizationErrorCode.ACCOUNT_SELECTION_REQUIRED
    for same in ("ada@example.org", " ADA@example.org", "Ada", "+15550100"):
        assert step(login_hint=same, prompts=NONE) is AuthorizationStep.DONE
    international = replace(ADA, email="ada@b\u00fccher.example")
    for same in ("ada@B\u00dcCHER.example", "ada@xn--bcher-kva.example"):
        assert step(international, login_hint=same, prompts=NONE) is AuthorizationStep.DONE


def test_an_application_gets_the_person_of_its_token_or_nobody() -> None:
    bob = UserId(UUID(int=9))
    assert step(subject=ADA.user, prompts=NONE) is AuthorizationStep.DONE
    assert step(subject=bob) is AuthorizationStep.SIGN_IN
    assert refused(subject=bob, prompts=NONE) is AuthorizationErrorCode.LOGIN_REQUIRED
    assert refused(JUST_NOW, BEGUN, subject=bob) is AuthorizationErrorCode.LOGIN_REQUIRED
    assert step(JUST_NOW, BEGUN, subject=ADA.user) is AuthorizationStep.DONE


def test_a_sign_in_that_does_not_say_when_is_followed_by_a_proof_or_a_refusal() -> None:
    """The person has come for this request, from a provider that says nothing, or where they signed in yesterday."""
    cannot = replace(BEGUN, cannot_prove=True)
    for stated_at in (SILENT, NOW - timedelta(hours=9)):
        who = replace(JUST_NOW, stated_at=stated_at)
        asks: tuple[dict[str, Any], ...] = ({"max_age": 60}, {"prompts": prompt(AuthorizationPrompt.LOGIN)})
        for asked in asks:
            assert step(who, BEGUN, **asked) is AuthorizationStep.PROVE
            assert refused(who, cannot, **asked) is AuthorizationErrorCode.LOGIN_REQUIRED
            # A session from before the request signs in first, and nobody is asked where nobody may be.
            assert step(replace(who, proved_at=NOW - timedelta(hours=1)), BEGUN, **asked) is AuthorizationStep.SIGN_IN
        assert refused(who, prompts=NONE, max_age=60) is AuthorizationErrorCode.LOGIN_REQUIRED
        assert step(who, BEGUN) is step(who, cannot) is AuthorizationStep.DONE
    assert step(replace(JUST_NOW, stated_at=NOW - timedelta(hours=9)), BEGUN, max_age=10 * 3600) is AuthorizationStep.DONE
    assert step(replace(JUST_NOW, stated_at=NOW), BEGUN, max_age=0, prompts=prompt(AuthorizationPrompt.LOGIN)) is AuthorizationStep.DONE


def test_a_second_factor_may_be_asked_for() -> None:
    both = replace(ADA, authenticated_by=("pwd", "otp", "mfa"), has_second_factor=True)
    one = replace(ADA, has_second_factor=True)
    asked: dict[str, Any] = {"acr_values": (TWO_FACTORS, "phr")}
    assert step(both, prompts=NONE, **asked) is AuthorizationStep.DONE
    assert step(one, **asked) is AuthorizationStep.SECOND_FACTOR
    # A trusted device lets a person in with one factor, which is less than the request asks for.
    assert step(replace(one, proved_at=NOW), BEGUN, **asked) is AuthorizationStep.SECOND_FACTOR
    assert refused(one, prompts=NONE, **asked) is AuthorizationErrorCode.INTERACTION_REQUIRED
    assert refused(**asked) is AuthorizationErrorCode.UNMET_REQUIREMENTS
    # Any of the values is enough; unknown values do not count.
    for enough in ((TWO_FACTORS, ONE_FACTOR), (ONE_FACTOR,), ("1", "2"), ()):
        assert step(acr_values=enough) is AuthorizationStep.DONE
        assert not wants_second_factor(replace(REQUEST, acr_values=enough))


def test_an_application_for_members_lets_nobody_else_in() -> None:
    closed = replace(APPLICATION, sign_in_policy=SignInPolicy.MEMBERS)
    assert step(application=closed) is AuthorizationStep.TURN_AWAY
    assert refused(application=closed, prompts=NONE) is AuthorizationErrorCode.ACCESS_DENIED
    assert step(replace(ADA, is_member=True, is_own_member=True), application=closed) is AuthorizationStep.DONE
    # First they may sign in as somebody else.
    assert step(None, application=closed) is AuthorizationStep.SIGN_IN
    assert step(prompts=prompt(AuthorizationPrompt.LOGIN), application=closed) is AuthorizationStep.SIGN_IN


@pytest.mark.parametrize("consented", [None, (), (OPENID,), (EMAIL, PROFILE)])
def test_what_was_not_allowed_yet_is_asked(consented: tuple[str, ...] | None) -> None:
    who = replace(ADA, consented=consented)
    assert step(who) is AuthorizationStep.CONSENT
    assert step(who, replace(BEGUN, consented=True)) is AuthorizationStep.DONE
    assert refused(who, prompts=NONE) is AuthorizationErrorCode.CONSENT_REQUIRED
    assert step(who, scopes=()) is (AuthorizationStep.CONSENT if consented is None else AuthorizationStep.DONE)


STRANGER = replace(ADA, consented=None)


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"login_hint": ADA.email},
        {"login_hint": "bob@example.org"},
        {"subject": ADA.user},
        {"subject": UserId(UUID(int=9))},
        {"acr_values": (TWO_FACTORS,)},
        {"max_age": 0},
        {"max_age": 9999},
        {"scopes": ()},
    ],
)
@pytest.mark.parametrize(
    "who",
    [
        STRANGER,
        replace(STRANGER, proved_at=NOW),
        replace(STRANGER, is_member=True),
        replace(STRANGER, is_member=True, second_factor_due=NOW),
        replace(STRANGER, has_second_factor=True),
        replace(STRANGER, authenticated_by=("pwd", "otp", "mfa"), has_second_factor=True),
    ],
)
@pytest.mark.parametrize("kind", [{}, {"sign_in_policy": SignInPolicy.MEMBERS}, {"session_lifetime": timedelta(minutes=1)}])
def test_of_people_who_have_allowed_it_nothing_an_application_learns_that_alone(
    who: SignedInPerson, asked: dict[str, Any], kind: dict[str, Any]
) -> None:
    assert refused(who, application=replace(APPLICATION, **kind), prompts=NONE, **asked) is AuthorizationErrorCode.CONSENT_REQUIRED


def test_nor_does_it_learn_who_has_no_second_factor() -> None:
    asked: dict[str, Any] = {"acr_values": (TWO_FACTORS,)}
    assert step(STRANGER, **asked) is AuthorizationStep.CONSENT
    assert step(STRANGER, application=replace(APPLICATION, sign_in_policy=SignInPolicy.MEMBERS), **asked) is AuthorizationStep.TURN_AWAY
    assert refused(STRANGER, replace(BEGUN, consented=True), **asked) is AuthorizationErrorCode.UNMET_REQUIREMENTS


def test_what_was_allowed_is_asked_again_only_when_the_application_says_so() -> None:
    assert step(replace(ADA, consented=SCOPES)) is AuthorizationStep.DONE
    assert step(prompts=prompt(AuthorizationPrompt.CONSENT)) is AuthorizationStep.CONSENT
    assert step(prompts=prompt(AuthorizationPrompt.CONSENT), progress=replace(BEGUN, consented=True)) is AuthorizationStep.DONE


def test_the_trust_of_an_organization_counts_for_those_alone_who_are_its_members_by_their_own_act() -> None:
    trusted = replace(APPLICATION, trusted=True)
    stranger = replace(ADA, consented=None)
    listed = replace(stranger, is_member=True)
    member = replace(listed, is_own_member=True)
    for who in (stranger, listed):
        assert step(who, replace(ARRIVED, asked_membership=True), trusted) is AuthorizationStep.CONSENT
        assert refused(who, application=trusted, prompts=NONE) is AuthorizationErrorCode.CONSENT_REQUIRED
    assert step(member, application=trusted, prompts=NONE) is AuthorizationStep.DONE
    assert step(member, application=trusted, prompts=prompt(AuthorizationPrompt.CONSENT)) is AuthorizationStep.CONSENT


def test_whom_the_organization_lists_is_asked_at_the_sign_in_whether_they_belong_there() -> None:
    listed = replace(JUST_NOW, is_member=True)
    assert step(listed, BEGUN) is AuthorizationStep.CONFIRM_MEMBERSHIP
    assert step(listed, replace(BEGUN, asked_membership=True)) is AuthorizationStep.DONE
    assert step(replace(listed, is_own_member=True), BEGUN) is AuthorizationStep.DONE
    # People who were signed in already are not asked; nor are those whom the request forbids to ask.
    assert step(replace(ADA, is_member=True)) is AuthorizationStep.DONE
    assert step(listed, BEGUN, prompts=NONE) is AuthorizationStep.DONE
    # Before anything that the organization asks of its members, and before the application asks.
    due = replace(listed, second_factor_due=NOW, consented=None)
    assert step(due, BEGUN) is AuthorizationStep.CONFIRM_MEMBERSHIP
    assert step(due, replace(BEGUN, asked_membership=True)) is AuthorizationStep.SET_UP_SECOND_FACTOR


def test_they_are_asked_as_well_where_the_answer_spares_them_the_question_for_consent() -> None:
    listed, trusted = replace(ADA, is_member=True, consented=None), replace(APPLICATION, trusted=True)
    assert step(listed, application=trusted) is AuthorizationStep.CONFIRM_MEMBERSHIP
    assert step(listed, replace(ARRIVED, asked_membership=True), trusted) is AuthorizationStep.CONSENT
    assert refused(listed, application=trusted, prompts=NONE) is AuthorizationErrorCode.CONSENT_REQUIRED
    assert step(listed) is AuthorizationStep.CONSENT
    assert step(listed, application=trusted, prompts=prompt(AuthorizationPrompt.CONSENT)) is AuthorizationStep.CONSENT
    assert step(listed, application=trusted, recipient=Recipient("http://localhost/")) is AuthorizationStep.CONSENT
    assert step(replace(listed, consented=ASKED), application=trusted) is AuthorizationStep.DONE


@pytest.mark.parametrize("uri", ["http://127.0.0.1:51004/callback", "http://localhost/", "http://[::1]:1/", "com.example.app:/callback"])
def test_nothing_goes_to_a_device_without_a_word(uri: str) -> None:
    trusted, member = replace(APPLICATION, trusted=True), replace(ADA, is_member=True, is_own_member=True)
    asked: dict[str, Any] = {"recipient": Recipient(uri)}
    assert step(member, application=trusted, **asked) is AuthorizationStep.CONSENT
    assert step(replace(member, proved_at=NOW), BEGUN, trusted, **asked) is AuthorizationStep.CONSENT
    assert step(member, replace(BEGUN, consented=True), trusted, **asked) is AuthorizationStep.DONE
    assert refused(member, application=trusted, prompts=NONE, **asked) is AuthorizationErrorCode.CONSENT_REQUIRED


def test_an_application_of_a_suspended_organization_is_closed() -> None:
    require_open(REQUEST, APPLICATION)
    closed = replace(APPLICATION, organization_is_active=False)
    with pytest.raises(OrganizationNotActive):
        require_open(REQUEST, closed)
    with pytest.raises(AuthorizationRefused):
        require_open(replace(REQUEST, prompts=NONE), closed)


def test_a_server_without_a_secret_and_keys_could_not_redeem_a_code() -> None:
    server = replace(APPLICATION.registered, may_be_public=False)
    require_redeemable(REQUEST, server)
    require_redeemable(REQUEST, replace(server, authenticates=False, may_be_public=True))
    # Tokens need no redeeming.
    with_tokens = replace(REQUEST, recipient=replace(REQUEST.recipient, response_mode=ResponseMode.FRAGMENT))
    require_redeemable(with_tokens, replace(server, authenticates=False))
    with pytest.raises(AuthorizationRefused) as refusal:
        require_redeemable(REQUEST, replace(server, authenticates=False))
    assert refusal.value.word is AuthorizationErrorCode.UNAUTHORIZED_CLIENT

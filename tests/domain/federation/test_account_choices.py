"""Which of several accounts in a browser an application gets, and when the person has to say so."""

from uuid import UUID

from core.domain.federation.oauth.authorization_steps import must_choose, named_account
from core.domain.federation.oauth.authorizations import AuthorizationPrompt, AuthorizationRequest, Recipient
from core.domain.identifiers import ClientId, SessionId, UserId
from core.domain.identity.callers import Caller
from core.domain.mail import Email
from core.frozen import replace

REQUEST = AuthorizationRequest(client_id=ClientId("app"), recipient=Recipient("https://app.example.com/callback"), scopes=())


def caller(number: int, name: str) -> Caller:
    return Caller(UserId(UUID(int=number)), Email(f"{name}@example.org"), SessionId(UUID(int=10 + number)), is_platform_owner=False)


ADA, BOB = caller(1, "ada"), caller(2, "bob")


def test_a_request_names_an_account_by_an_id_or_an_address() -> None:
    assert named_account(REQUEST, [ADA, BOB]) is None
    assert named_account(replace(REQUEST, login_hint="bob"), [ADA, BOB]) is None
    assert named_account(replace(REQUEST, login_hint=" BOB@example.org "), [ADA, BOB]) is BOB
    # The id of a token counts before an address.
    both = replace(REQUEST, login_hint="bob@example.org", subject=ADA.user)
    assert named_account(both, [ADA, BOB]) is ADA
    assert named_account(both, [BOB]) is None


def test_who_has_one_account_is_not_asked() -> None:
    assert not must_choose(replace(REQUEST, subject=BOB.user), ADA, ())
    assert not must_choose(REQUEST, None, ())


def test_an_account_that_waits_is_never_taken_by_its_name_alone() -> None:
    assert must_choose(REQUEST, ADA, [BOB])
    assert must_choose(REQUEST, None, [BOB])
    assert must_choose(replace(REQUEST, login_hint=BOB.email.address), ADA, [BOB])
    assert not must_choose(replace(REQUEST, login_hint=ADA.email.address), ADA, [BOB])
    assert must_choose(replace(REQUEST, subject=BOB.user), ADA, [BOB])
    assert must_choose(replace(REQUEST, subject=BOB.user), None, [BOB])
    assert not must_choose(replace(REQUEST, subject=ADA.user), ADA, [BOB])
    assert not must_choose(replace(REQUEST, subject=UserId(UUID(int=3))), ADA, [BOB])
    # Where nobody may be asked, the application does not learn that this person is here.
    silent = replace(REQUEST, subject=BOB.user, prompts=frozenset({AuthorizationPrompt.NONE}))
    assert not must_choose(silent, ADA, [BOB])

"""What a thief of cookies, or of anything else but the key, gets from a bound session. Whatever is wrong with a proof ends nothing."""

import json
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

from core.domain.identifiers import BoundKeyId, UserId
from core.domain.identity.guards.bound_sessions import PURPOSE, cookie_of
from core.domain.record.events import Actor
from core.domain.secrets import Token
from tests.http.client import Received
from tests.http.people import Person
from tests.meanwhile import meanwhile
from tests.security.bound_sessions.browser import BOUND, BoundBrowser, Key, carried_off, in_base64, jwk_of, new_key, proof, signed
from tests.security.bound_sessions.conftest import Binding

REGISTRATION, RENEWAL = "/bound-session", "/bound-session/renew"


def id_of(browser: BoundBrowser) -> str:
    (identifier,) = browser.sessions
    return identifier


def key_of(browser: BoundBrowser) -> Key:
    (session,) = browser.sessions.values()
    return session.key


async def renew(browser: BoundBrowser, text: str | None = None, identifier: str | None = None) -> Received:
    """A renewal as the thief sends it, who knows the id of the session and has its cookies."""
    headers = {"sec-secure-session-id": f'"{identifier or id_of(browser)}"'}
    if text is not None:
        headers["secure-session-response"] = f'"{text}"'
    cookies = [("cookie", "; ".join(f"{name}={value}" for name, value in browser.cookies.items()))]
    return await browser.client.request("POST", RENEWAL, headers=[*headers.items(), *cookies])


async def register(browser: BoundBrowser, text: str) -> Received:
    return await browser.client.request("POST", REGISTRATION, headers=[("secure-session-response", f'"{text}"')])


def challenge_in(answer: Received) -> str:
    return (answer.header("secure-session-challenge") or "").split('"')[1]


async def challenged(browser: BoundBrowser) -> str:
    return challenge_in(await renew(browser))


def outcomes(binding: Binding) -> dict[str, float]:
    text = binding.postern.foundation.metrics.render().decode()
    lines = [line for line in text.splitlines() if line.startswith("sso_bound_sessions_total{")]
    return {line.split('"')[1]: float(line.rpartition(" ")[2]) for line in lines}


def refused(answer: Received) -> None:
    """Nothing but the next challenge: no cookie, and a status at which a browser goes on asking."""
    assert answer.status == 403
    assert challenge_in(answer)
    assert answer.header("set-cookie") is None
    assert answer.body == b""


async def test_cookies_in_another_client_are_worth_nothing_after_ten_minutes(binding: Binding, ada: Person) -> None:
    browser = await binding.bound(ada)
    thief = carried_off(browser)
    binding.passes(minutes=9, seconds=59)
    assert await binding.counts(thief)
    binding.passes(seconds=1)
    for target in ("/ui/profile", "/ui/sessions", "/ui/devices", "/ui/password"):
        assert (await thief.tab().open(target)).place.startswith("/ui/sign-in?to=")
    assert binding.nothing_ended()
    assert await binding.counts(browser)
    # Not beside the cookie of a browser of the thief's own either.
    eve = await binding.bound(await binding.person("eve"))
    thief.cookies[BOUND] = eve.cookies[BOUND]
    assert not await binding.counts(thief)


async def test_the_other_accounts_and_the_acting_session_count_with_the_key_alone(binding: Binding, ada: Person) -> None:
    root, ben = await binding.person("root"), await binding.person("ben")
    binding.people.change("update users set is_platform_owner = true where id = %s", root.user)
    browser = await binding.bound(ben)
    await binding.signs_in(browser, root)
    actor = Actor(UserId(root.user))
    caller = await binding.postern.tenancy.callers.resolve_browser(_token(browser, "session"), BoundKeyId(UUID(id_of(browser))))
    assert caller is not None
    acting = await binding.postern.identity.impersonations.begin_in_browser(caller, UserId(ada.user), "Ticket 4711", actor)
    browser.cookies["__Host-postern_acting"] = acting.token.reveal()
    thief = carried_off(browser)
    assert ada.email.encode() in (await browser.tab().open("/ui")).shown.body
    binding.passes(minutes=11)
    browser_sees, thief_sees = (await browser.tab().open("/ui")), (await thief.tab().open("/ui"))
    assert ada.email.encode() in browser_sees.shown.body
    assert thief_sees.place.startswith("/ui/sign-in")
    tab = await thief.tab().open("/ui/accounts")
    assert tab.place.startswith("/ui/sign-in")
    assert binding.nothing_ended()
    # Without the key, no flow begins with one of the accounts either.
    assert not await binding.counts(thief)


def _token(browser: BoundBrowser, name: str) -> Token:
    return Token(browser.cookies[f"__Host-postern_{name}"])


async def test_proofs_that_do_not_count(binding: Binding, ada: Person) -> None:
    browser = await binding.bound(ada)
    other = await binding.bound(await binding.person("ben"))
    key = key_of(browser)
    challenge = await challenged(browser)
    foreign = await challenged(other)
    head, claims, signature = proof(key, challenge).split(".")
    events = binding.people.rows("select id from events order by id")
    changed = in_base64(json.dumps({"jti": challenge, "iat": 1}).encode())
    wrong = {
        "of another key": proof(new_key(), challenge),
        "of another key, which it names": proof(new_key(), challenge, names_key=True),
        "of another session": proof(key_of(other), foreign),
        "of the key, for another session's challenge": proof(key, foreign),
        "for no challenge": proof(key, ""),
        "changed": f"{head}.{changed}.{signature}",
        "without a signature": f"{head}.{claims}.",
        "with half a signature": f"{head}.{claims}.{signature[:40]}",
        "by no algorithm": signed(key, {"typ": "dbsc+jwt", "alg": "none"}, {"jti": challenge}),
        "by HMAC": signed(key, {"typ": "dbsc+jwt", "alg": "HS256"}, {"jti": challenge}),
        "by RS256": signed(key, {"typ": "dbsc+jwt", "alg": "RS256"}, {"jti": challenge}),
        "of another type": signed(key, {"typ": "dpop+jwt", "alg": "ES256"}, {"jti": challenge}),
        "with a certificate": proof(key, challenge, x5c=["x"]),
        "with a challenge that is no text": signed(key, {"typ": "dbsc+jwt", "alg": "ES256"}, {"jti": [challenge]}),
        "no token": "x",
        "empty": "",
        "too long": "x" * 5000,
        "two": f'{proof(key, challenge)}", "{proof(key, challenge)}',
    }
    for what, text in wrong.items():
        answer = await renew(browser, text)
        refused(answer)
        assert challenge_in(answer) == challenge, what
    # Nothing has ended, and nobody has used the challenge up.
    assert binding.nothing_ended()
    assert (await renew(browser, proof(key, challenge))).status == 200
    assert binding.people.rows("select id from events order by id") == events, "nobody is told anything"


async def test_replayed_and_late_proofs_do_not_count(binding: Binding, ada: Person) -> None:
    browser = await binding.bound(ada)
    key = key_of(browser)
    used = proof(key, await challenged(browser))
    assert (await renew(browser, used)).status == 200
    refused(await renew(browser, used))
    # A challenge counts for five minutes, also if there is no newer one.
    for age, status in ((299, 200), (300, 403)):
        challenge = await challenged(browser)
        binding.passes(seconds=age)
        assert (await renew(browser, proof(key, challenge))).status == status
    # The last two count, and none before them.
    given = []
    for _ in range(3):
        binding.passes(seconds=61)
        given.append(await challenged(browser))
    assert len({*given}) == 3
    refused(await renew(browser, proof(key, given[0])))
    assert (await renew(browser, proof(key, given[2]))).status == 200
    assert binding.nothing_ended()


async def test_the_one_before_the_newest_challenge_counts(binding: Binding, ada: Person) -> None:
    browser = await binding.bound(ada)
    first = await challenged(browser)
    binding.passes(seconds=61)
    assert await challenged(browser) != first
    assert (await renew(browser, proof(key_of(browser), first))).status == 200


async def test_whoever_asks_for_challenges_replaces_none(binding: Binding, ada: Person) -> None:
    """Fifty questions without a proof, while the browser signs."""
    browser = await binding.bound(ada)
    challenge = await challenged(browser)
    assert {await challenged(browser) for _ in range(50)} == {challenge}
    assert (await renew(browser, proof(key_of(browser), challenge))).status == 200


async def test_of_two_proofs_with_one_challenge_one_counts(binding: Binding, ada: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = await binding.bound(ada)
    key, challenge = key_of(browser), await challenged(browser)
    store = binding.postern.identity.bound_sessions.lookup
    answers: list[Received] = []

    async def overtakes() -> None:
        monkeypatch.undo()
        answers.append(await renew(browser, proof(key, challenge)))

    meanwhile(monkeypatch, store, "find", overtakes)
    answers.append(await renew(browser, proof(key, challenge)))
    assert [one.status for one in answers] == [200, 403]
    assert challenge_in(answers[1]) != challenge


async def test_a_wrong_signature_is_counted_and_logged_once_an_hour_for_each_session(binding: Binding, ada: Person) -> None:
    browser = await binding.bound(ada)
    ben = await binding.person("ben")
    await binding.signs_in(browser, ben)
    before = outcomes(binding)["forged"]
    for _ in range(3):
        refused(await renew(browser, proof(new_key(), await challenged(browser))))
    assert outcomes(binding)["forged"] == before + 3
    logged = binding.audited("security.session.proof_refused")
    assert {entry["target_id"] for entry in logged} == {str(ada.user), str(ben.user)}
    assert len(logged) == 2
    assert all(entry["address"] is not None for entry in logged)
    binding.passes(minutes=61)
    refused(await renew(browser, proof(new_key(), await challenged(browser))))
    assert len(binding.audited("security.session.proof_refused")) == 4
    # A late or replayed proof is no wrong signature.
    refused(await renew(browser, proof(new_key(), "another")))
    assert len(binding.audited("security.session.proof_refused")) == 4
    assert binding.nothing_ended()


async def test_a_key_is_taken_once_for_its_sign_in(binding: Binding, ada: Person) -> None:
    """A thief who reads the challenge of the sign-in is late; nobody swaps the key."""
    browser = await binding.bound(ada)
    ((_, challenge),) = browser.offers
    for text in (proof(new_key(), challenge, names_key=True), proof(key_of(browser), challenge, names_key=True)):
        answer = await register(browser, text)
        assert (answer.status, answer.header("set-cookie"), answer.body) == (400, None, b"")
    (kept,) = binding.people.rows("select public_key from bound_keys")
    assert json.loads(kept["public_key"]) == jwk_of(key_of(browser))
    # Signing in again with the key offers no other one.
    await binding.signs_in(browser, ada)
    assert len(browser.offers) == 1


async def test_registrations_that_do_not_count(binding: Binding, ada: Person) -> None:
    browser = binding.browser(registers=False)
    await binding.signs_in(browser, ada)
    ((_, challenge),) = browser.offers
    key = new_key()
    id_, session, at, mac = challenge.split(".")
    off_curve = {**jwk_of(key), "y": jwk_of(new_key())["y"]}
    small, large = generate_private_key(65537, 1024), generate_private_key(65537, 2048)  # noqa: S505 - the small one is refused
    wrong = {
        "without its key": proof(key, challenge),
        "of another key": signed(key, {"typ": "dbsc+jwt", "alg": "ES256", "jwk": jwk_of(new_key())}, {"jti": challenge}),
        "of no point": signed(key, {"typ": "dbsc+jwt", "alg": "ES256", "jwk": off_curve}, {"jti": challenge}),
        "of a small key": proof(small, challenge, names_key=True),
        "of a private key": signed(key, {"typ": "dbsc+jwt", "alg": "ES256", "jwk": {**jwk_of(key), "d": "x"}}, {"jti": challenge}),
        "of another kind": signed(large, {"typ": "dbsc+jwt", "alg": "ES256", "jwk": jwk_of(large)}, {"jti": challenge}),
        "by none": signed(key, {"typ": "dbsc+jwt", "alg": "none"}, {"jti": challenge}),
        "for another session": proof(key, f"{id_}.{uuid4().hex}.{at}.{mac}", names_key=True),
        "for another key": proof(key, f"{uuid4().hex}.{session}.{at}.{mac}", names_key=True),
        "for another time": proof(key, f"{id_}.{session}.{int(at) + 1}.{mac}", names_key=True),
        "for the cookie": proof(key, browser.cookies[BOUND], names_key=True),
        "for nothing": proof(key, "", names_key=True),
        "of nothing": "",
    }
    for what, text in wrong.items():
        assert (await register(browser, text)).status == 400, what
    assert (await browser.client.request("POST", REGISTRATION)).status == 400
    late = proof(key, challenge, names_key=True)
    binding.passes(minutes=5)
    assert (await register(browser, late)).status == 400
    assert binding.people.rows("select from bound_keys") == []
    assert binding.audited("security.session.bound") == []
    assert await binding.counts(browser)


async def test_no_key_is_taken_for_a_session_that_has_ended(binding: Binding, ada: Person) -> None:
    browser = binding.browser(registers=False)
    await binding.signs_in(browser, ada)
    ((_, challenge),) = browser.offers
    binding.people.change("update sessions set revoked_at = now()")
    assert (await register(browser, proof(new_key(), challenge, names_key=True))).status == 400
    assert binding.people.rows("select from bound_keys") == []


async def test_of_two_registrations_for_one_session_one_counts(binding: Binding, ada: Person) -> None:
    """Two sign-ins in one session are two offers; the session takes one key."""
    browser = binding.browser(registers=False)
    await binding.signs_in(browser, ada)
    browser.cookies.pop(BOUND)
    await binding.signs_in(browser, ada)
    (_, first), (_, second) = browser.offers
    assert first.partition(".")[0] != second.partition(".")[0]
    answers = [await register(browser, proof(new_key(), one, names_key=True)) for one in (second, first)]
    assert [one.status for one in answers] == [200, 400]
    assert len(binding.people.rows("select from bound_keys")) == 1


async def test_cookies_that_nobody_has_given_name_no_key(binding: Binding, ada: Person) -> None:
    browser = await binding.bound(ada)
    given = browser.cookies[BOUND]
    key, kind, at, mac = given.split(".")
    secret = await binding.postern.foundation.server_secrets.get(PURPOSE)
    id_ = BoundKeyId(UUID(key))
    now = binding.clock.now()
    made = {
        "another time": f"{key}.{kind}.{int(at) + 100}.{mac}",
        "another key": f"{uuid4().hex}.{kind}.{at}.{mac}",
        "another kind": f"{key}.o.{at}.{mac}",
        "no signature": f"{key}.{kind}.{at}.",
        "another server's": cookie_of(id_, now, b"x" * 32, is_kept=True).reveal(),
        "too old": cookie_of(id_, now - timedelta(minutes=10), secret, is_kept=True).reveal(),
        "of another key of ours": cookie_of(BoundKeyId(uuid4()), now, secret, is_kept=True).reveal(),
        "the challenge": browser.offers[0][1],
        "too long": given + "x" * 300,
        "no cookie": "\x7f",
        "numbers": f"{key}.{kind}.{'9' * 13}.{mac}",
    }
    for what, cookie in made.items():
        thief = carried_off(browser)
        thief.cookies[BOUND] = cookie
        assert not await binding.counts(thief), what
    assert cookie_of(id_, now, secret, is_kept=True).reveal().split(".")[0] == key
    assert await binding.counts(browser)


@pytest.mark.parametrize("identifier", ["", "x", "0ba5bcbf-0e1e-4819-8ce4-52cfc6a5de52", "../x", "0" * 32, "x" * 500])
async def test_a_key_that_there_is_not(binding: Binding, identifier: str) -> None:
    answer = await binding.client.request("POST", RENEWAL, headers=[("sec-secure-session-id", f'"{identifier}"')])
    assert (answer.status, answer.json()) == (200, {"continue": False})
    assert (await binding.client.request("POST", RENEWAL)).json() == {"continue": False}


async def test_another_account_ends_nothing_of_this_one(binding: Binding, ada: Person) -> None:
    """A stranger asks for a renewal of this key beside a session of the stranger's own: the answer is the stranger's alone."""
    browser, eve = await binding.bound(ada), await binding.bound(await binding.person("eve"))
    answer = await renew(eve, identifier=id_of(browser))
    assert answer.json() == {"continue": False}
    binding.passes(minutes=11)
    assert await binding.counts(browser)
    assert binding.nothing_ended()


async def test_the_database_has_no_cookie_and_no_private_key(binding: Binding, ada: Person) -> None:
    browser = await binding.bound(ada)
    kept = str(binding.people.rows("select * from bound_keys") + binding.people.rows("select * from browser_sessions"))
    assert browser.cookies[BOUND] not in kept
    assert '"d"' not in kept

"""Passkeys by the API: added, named, removed, used to sign in; and every refusal."""

import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID, uuid4

import msgspec
import psycopg
import pyotp
import pytest
import trio

from adapters.postgres.identity.accounts import AccountRows
from core.domain.identity.devices import Client as Visitor
from core.domain.identity.passkeys import NOBODY, PasskeyRefused, relying_party
from entrypoints.bootstrap import Postern
from entrypoints.http.passkeys import AssertionCredential
from tests.authenticator import BACKED_UP, EDDSA, ELIGIBLE, ES256, GOOD, PRESENT, RS256, VERIFIED, Passkey, b64, cbor, unb64
from tests.changed_fields import put
from tests.conftest import CapturedLog
from tests.http.client import Client, Received
from tests.http.people import People, Person
from tests.http.postbox import Postbox
from tests.http.signing_in import FIREFOX, PASSWORD, Browser, unlimited
from tests.http.tenants import Tenants
from tests.meanwhile import meanwhile

OPTIONS, PASSKEYS = "/api/user/passkeys/options", "/api/user/passkeys"
SIGN_IN_OPTIONS, SIGN_IN = "/api/auth/passkeys/options", "/api/auth/passkeys"
REAUTHENTICATE = "/api/auth/reauthenticate"
SECOND_FACTOR, STATUS, DISABLE = "/api/user/mfa/passkeys", "/api/user/mfa/status", "/api/user/mfa"


@dataclass
class Owner:
    """A person with a session, who manages passkeys."""

    client: Client
    people: People
    postern: Postern
    person: Person
    token: str = ""
    browser: Browser = field(init=False)

    def __post_init__(self) -> None:
        self.browser = Browser(self.client)

    async def options(self) -> Any:
        answer = await self.client.post(OPTIONS, token=self.token)
        assert answer.status == 200, answer.body
        return answer.json()

    async def send(self, credential: Any, **more: Any) -> Received:
        headers = [("user-agent", FIREFOX)]
        return await self.client.post(PASSKEYS, {"credential": credential, **more}, token=self.token, headers=headers)

    async def add(self, passkey: Passkey | None = None, **more: Any) -> tuple[Passkey, UUID]:
        passkey = passkey or Passkey.made()
        answer = await self.send(passkey.create(await self.options()), **more)
        assert answer.status == 201, answer.body
        return passkey, UUID(answer.json()["id"])

    async def request(self) -> Any:
        answer = await self.client.post(SIGN_IN_OPTIONS)
        assert answer.status == 200, answer.body
        return answer.json()

    async def sign_in(self, passkey: Passkey, **more: Any) -> Received:
        return await self.browser.post(SIGN_IN, {"credential": passkey.get(await self.request()), **more})

    def grow_old(self, by: str = "11 minutes") -> None:
        change = "update sessions set proved_at = proved_at - %s::interval, second_factor_at = second_factor_at - %s::interval"
        self.people.change(change, by, by)


@pytest.fixture
def client(postern: Postern) -> Client:
    return unlimited(postern)


async def owner(client: Client, people: People, postern: Postern, email: str) -> Owner:
    person = people.add(email)
    people.change("update users set email_verified_at = now() where id = %s", person.user)
    return Owner(client, people, postern, person, await people.token(person))


@pytest.fixture
async def ada(client: Client, people: People, postern: Postern) -> Owner:
    return await owner(client, people, postern, "ada@example.org")


@pytest.fixture
async def bob(client: Client, people: People, postern: Postern) -> Owner:
    return await owner(client, people, postern, "bob@example.org")


async def test_the_options_for_a_new_one(ada: Owner) -> None:
    options = await ada.options()
    assert options["rp"] == {"id": "id.example.org", "name": "Postern"}
    assert unb64(options["user"]["id"]) == ada.person.user.bytes
    assert (options["user"]["name"], options["attestation"]) == (ada.person.email, "none")
    assert options["authenticatorSelection"] == {"residentKey": "required", "requireResidentKey": True, "userVerification": "required"}
    assert [one["alg"] for one in options["pubKeyCredParams"]] == [EDDSA, ES256, RS256]
    assert len(unb64(options["challenge"])) == 32
    assert options["excludeCredentials"] == []
    passkey, _ = await ada.add()
    (excluded,) = (await ada.options())["excludeCredentials"]
    assert excluded == {"id": b64(passkey.credential_id), "type": "public-key", "transports": ["internal", "hybrid"]}
    # The kept data of a challenge do not reveal the challenge.
    kept = ada.people.rows("select digest from passkey_challenges")
    assert options["challenge"].encode() not in b"".join(row["digest"] for row in kept)


async def test_one_is_added_named_and_removed(ada: Owner) -> None:
    await ada.add()
    passkey = Passkey.made(aaguid=uuid4(), flags=GOOD | ELIGIBLE | BACKED_UP)
    answer = await ada.send(passkey.create(await ada.options()), name="  Work laptop ")
    assert answer.status == 201
    added = answer.json()
    assert {**added, "id": "", "created_at": ""} == {
        "id": "",
        "name": "Work laptop",
        "aaguid": str(passkey.aaguid),
        "maker": None,
        "made_on": "Firefox on Linux",
        "backup_eligible": True,
        "backed_up": True,
        "second_factor": False,
        "created_at": "",
        "last_used_at": None,
    }
    listed = (await ada.client.get(PASSKEYS, token=ada.token)).json()
    assert listed["total"] == 2
    assert [one["name"] for one in listed["passkeys"]] == ["Firefox on Linux", "Work laptop"]
    assert listed["passkeys"][1] == added
    one = f"{PASSKEYS}/{added['id']}"
    renamed = await ada.client.request("PATCH", one, body={"name": "Key"}, token=ada.token)
    assert (renamed.status, renamed.json()) == (200, {**added, "name": "Key"})
    # The same name again is no change.
    assert (await ada.client.request("PATCH", one, body={"name": "Key"}, token=ada.token)).status == 200
    assert (await ada.client.request("PATCH", one, body={"name": " "}, token=ada.token)).status == 400
    assert (await ada.client.request("DELETE", one, token=ada.token)).status == 204
    assert (await ada.client.request("DELETE", one, token=ada.token)).status == 404
    assert (await ada.client.request("PATCH", one, body={"name": "Key"}, token=ada.token)).status == 404
    assert (await ada.client.get(PASSKEYS, token=ada.token)).json()["total"] == 1
    named = "select action, details from audit_log where action like %s order by created_at, id"
    entries = ada.people.rows(named, "security.passkey.%")
    assert [row["action"] for row in entries][-3:] == ["security.passkey.added", "security.passkey.renamed", "security.passkey.removed"]
    assert entries[-1]["details"]["passkey_id"] == added["id"]
    names = [row["name"] for row in ada.people.rows("select name from mfa_events order by id")]
    assert names == ["passkey_added", "passkey_added", "passkey_removed"]
    subjects = [mail.subject for mail in await Postbox(ada.postern).empty()]
    assert subjects == ["A passkey was added to your account"] * 2 + ["A passkey was removed from your account"]


@pytest.mark.parametrize("algorithm", [ES256, EDDSA, RS256])
async def test_it_signs_in_and_counts_as_two_factors(ada: Owner, algorithm: int) -> None:
    passkey, id_ = await ada.add(Passkey.made(algorithm))
    options = await ada.request()
    assert {**options, "challenge": ""} == {
        "challenge": "",
        "timeout": 300000,
        "rpId": "id.example.org",
        "allowCredentials": [],
        "userVerification": "required",
    }
    answer = await ada.sign_in(passkey)
    assert answer.status == 200, answer.body
    assert answer.json()["token_type"] == "Bearer"
    assert answer.header("x-device-token")
    token = answer.json()["access_token"]
    assert (await ada.client.get("/api/user", token=token)).json()["email"] == ada.person.email
    (session,) = ada.people.rows("select * from sessions where id <> %s", ada.person.session)
    assert session["authenticated_by"] == ["hwk", "user", "mfa"]
    assert session["proved_at"] == session["second_factor_at"] is not None
    assert ada.people.rows("select provider, success from login_events") == [{"provider": "passkey", "success": True}]
    (kept,) = ada.people.rows("select last_used_at, sign_count from passkeys where id = %s", id_)
    assert kept["last_used_at"] is not None
    assert kept["sign_count"] == 0
    # So the session may make requests that need a fresh proof.
    assert (await ada.client.post(OPTIONS, token=token)).status == 200
    assert (await ada.client.post("/api/auth/refresh", {"refresh_token": answer.json()["refresh_token"]})).status == 200


async def test_one_that_may_be_copied_to_other_devices_is_no_hardware(ada: Owner) -> None:
    passkey, id_ = await ada.add(Passkey.made(flags=GOOD | ELIGIBLE))
    passkey.flags |= BACKED_UP
    assert (await ada.sign_in(passkey)).status == 200
    (session,) = ada.people.rows("select authenticated_by from sessions where id <> %s", ada.person.session)
    assert session["authenticated_by"] == ["swk", "user", "mfa"]
    (kept,) = ada.people.rows("select backed_up from passkeys where id = %s", id_)
    assert kept["backed_up"] is True


@pytest.mark.parametrize(
    ("made", "what"),
    [
        ({"origin": "https://evil.example"}, {}),
        ({"origin": "https://id.example.org:444"}, {}),
        ({"relying_party": "example.org"}, {}),
        ({"flags": PRESENT}, {}),
        ({"flags": VERIFIED}, {}),
        ({"flags": GOOD | BACKED_UP}, {}),
        ({"credential_id": b""}, {}),
        ({"credential_id": b"x" * 1024}, {}),
        ({}, {"crossOrigin": True}),
        ({}, {"type": "webauthn.get"}),
        ({}, {"challenge": "bm90IG91cnM"}),
        ({}, {"challenge": 5}),
    ],
)
async def test_what_is_no_passkey_for_us_is_not_added(ada: Owner, made: dict[str, Any], what: dict[str, Any]) -> None:
    passkey = Passkey.made(**made)
    answer = await ada.send(passkey.create(await ada.options(), **what))
    assert answer.status in {400, 409}, answer.body
    assert ada.people.rows("select from passkeys") == []


@pytest.mark.parametrize(
    ("algorithm", "changes"),
    [
        (ES256, {3: -35}),
        (ES256, {3: -65535}),
        (ES256, {3: 0}),
        (ES256, {-1: 2}),
        (ES256, {-2: b"\1" * 32}),
        (EDDSA, {-1: 7}),
        (EDDSA, {-2: b"short"}),
        (RS256, {-2: b"\3"}),
        (RS256, {-1: b"\1" * 128}),
        (RS256, {-1: b"\1" * 1100}),
        (RS256, {-1: 5}),
    ],
)
async def test_a_key_of_another_kind_is_not_added(ada: Owner, algorithm: int, changes: dict[int, Any]) -> None:
    passkey = Passkey.made(algorithm)
    answer = await ada.send(passkey.create(await ada.options(), cose={**passkey.cose(), **changes}))
    assert (answer.status, answer.json()["error_code"]) == (400, "BAD_REQUEST")
    assert ada.people.rows("select from passkeys") == []


async def test_what_cannot_be_read_is_refused(ada: Owner) -> None:
    options = await ada.options()
    good = Passkey.made().create(options)
    response = good["response"]
    for broken in (
        {**good, "response": {**response, "attestationObject": b64(b"\xff" * 10)}},
        {**good, "response": {**response, "attestationObject": b64(b"\x9b" + b"\xff" * 8)}},
        {**good, "response": {**response, "attestationObject": b64(b"\x81" * 4000)}},
        {**good, "response": {**response, "attestationObject": b64(b"\0" * 5000)}},
        {**good, "response": {**response, "attestationObject": ""}},
        {**good, "response": {**response, "clientDataJSON": b64(b"[1]")}},
        {**good, "response": {**response, "clientDataJSON": b64(b"{")}},
        {**good, "response": {**response, "clientDataJSON": b64(b"[" * 4000)}},
        {**good, "response": {**response, "clientDataJSON": b64(b" " * 5000)}},
        {**good, "response": {**response, "clientDataJSON": "A"}},
        {**good, "response": {**response, "clientDataJSON": "not base64url!"}},
        {**good, "clientExtensionResults": {"credProps": {"rk": False}}},
        {"id": "AA"},
        "text",
    ):
        answer = await ada.send(broken)
        assert answer.status == 400, broken
    # An assertion has no key in it.
    passkey, _ = await ada.add()
    data = unb64(passkey.get(await ada.request())["response"]["authenticatorData"])
    without = {**response, "attestationObject": b64(cbor({"fmt": "none", "attStmt": {}, "authData": data}))}
    assert (await ada.send({**good, "response": without})).status == 400


async def test_the_challenge_is_the_sessions_own_and_works_once(ada: Owner, bob: Owner) -> None:
    options = await ada.options()
    passkey = Passkey.made()
    credential = passkey.create(options)
    assert (await bob.send(credential)).status == 409
    assert (await ada.send(credential)).status == 201
    assert (await ada.send(credential)).status == 409
    # A new challenge with a key that some account has already.
    for who in (ada, bob):
        assert (await who.send(passkey.create(await who.options()))).status == 409
    # A challenge for a sign-in cannot add a passkey, and the other way round.
    assert (await ada.send(Passkey.made().create({**await ada.options(), "challenge": (await ada.request())["challenge"]}))).status == 409
    stolen = {**await ada.request(), "challenge": (await ada.options())["challenge"]}
    assert (await ada.client.post(SIGN_IN, {"credential": passkey.get(stolen)})).status == 401
    late = await ada.options()
    ada.people.change("update passkey_challenges set expires_at = now() - interval '1 second'")
    assert (await ada.send(Passkey.made().create(late))).status == 409
    assert len(ada.people.rows("select from passkeys")) == 1


@pytest.mark.parametrize("refused", ["origin", "unreadable", "duplicate", "full"])
async def test_the_first_answer_uses_the_challenge_up_also_where_it_is_refused(ada: Owner, refused: str) -> None:
    had, _ = await ada.add()
    options = await ada.options()
    passkey = had if refused == "duplicate" else Passkey.made()
    made = replace(passkey, origin="https://evil.example") if refused == "origin" else passkey
    credential = made.create(options)
    if refused == "unreadable":
        credential["response"]["attestationObject"] = b64(b"\xff" * 10)
    if refused == "full":
        has_twenty_five(ada)
    assert (await ada.send(credential)).status in {400, 409}
    ada.people.change("delete from passkeys where credential_id <> %s", had.credential_id)
    assert (await ada.send(Passkey.made().create(options))).status == 409
    assert len(ada.people.rows("select from passkeys")) == 1
    assert ada.people.rows("select from passkey_challenges") == []


def has_twenty_five(ada: Owner) -> None:
    ada.people.change(
        "insert into passkeys (id, user_id, credential_id, public_key, sign_count, name, aaguid, transports, backup_eligible, backed_up,"
        " created_at) select gen_random_uuid(), %s, n::text::bytea, '', 0, 'x', gen_random_uuid(), '{}', false, false, now()"
        " from generate_series(1, 25) as n",
        ada.person.user,
    )


async def test_nobody_has_more_than_twenty_five(ada: Owner) -> None:
    options = await ada.options()
    has_twenty_five(ada)
    for answer in (await ada.client.post(OPTIONS, token=ada.token), await ada.send(Passkey.made().create(options))):
        assert answer.status == 400
        assert "which is the maximum" in answer.json()["error"]


async def test_a_session_that_ends_meanwhile_adds_none(ada: Owner, database_url: str) -> None:
    """When all access is ended, a passkey that was under way must not stay behind."""
    credential = Passkey.made().create(await ada.options())
    answers: list[Received] = []

    async def add() -> None:
        answers.append(await ada.send(credential))

    with psycopg.connect(database_url) as meanwhile:
        meanwhile.execute("select from users where id = %s for no key update", [ada.person.user])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(add)
            await ada.people.somebody_waits()
            meanwhile.execute("update sessions set revoked_at = now() where user_id = %s", [ada.person.user])
            meanwhile.commit()
    assert [answer.status for answer in answers] == [409]
    assert ada.people.rows("select from passkeys") == []


async def test_a_fresh_proof_is_asked_for(ada: Owner) -> None:
    _, id_ = await ada.add()
    options = await ada.options()
    ada.grow_old()
    for answer in (
        await ada.client.post(OPTIONS, token=ada.token),
        await ada.send(Passkey.made().create(options)),
        await ada.client.request("DELETE", f"{PASSKEYS}/{id_}", token=ada.token),
        await ada.client.post(SECOND_FACTOR, token=ada.token),
    ):
        assert (answer.status, answer.json()["error_code"]) == (401, "REAUTHENTICATION_REQUIRED")
    assert (await ada.client.get(PASSKEYS, token=ada.token)).status == 200
    assert (await ada.client.request("PATCH", f"{PASSKEYS}/{id_}", body={"name": "Key"}, token=ada.token)).status == 200


async def test_somebody_elses_passkeys_do_not_exist(ada: Owner, bob: Owner) -> None:
    _, id_ = await ada.add()
    await bob.add()
    one = f"{PASSKEYS}/{id_}"
    assert (await bob.client.request("PATCH", one, body={"name": "mine"}, token=bob.token)).status == 404
    assert (await bob.client.request("DELETE", one, token=bob.token)).status == 404
    assert (await bob.client.get(PASSKEYS, token=bob.token)).json()["total"] == 1
    assert len(ada.people.rows("select from passkeys")) == 2


async def test_the_last_way_in_stays(ada: Owner) -> None:
    _, id_ = await ada.add()
    answer = await ada.client.request("DELETE", f"{PASSKEYS}/{id_}", token=ada.token)
    assert (answer.status, answer.json()["error_code"]) == (400, "BAD_REQUEST")
    assert "last sign-in method of the account" in answer.json()["error"]
    _, other = await ada.add()
    assert (await ada.client.request("DELETE", f"{PASSKEYS}/{id_}", token=ada.token)).status == 204
    ada.people.change("update users set password_hash = 'x' where id = %s", ada.person.user)
    assert (await ada.client.request("DELETE", f"{PASSKEYS}/{other}", token=ada.token)).status == 204


async def test_whoever_removes_one_waits_for_whoever_removes_another(ada: Owner, database_url: str) -> None:
    first, second = [(await ada.add())[1] for _ in range(2)]
    answers: list[Received] = []

    async def remove() -> None:
        answers.append(await ada.client.request("DELETE", f"{PASSKEYS}/{second}", token=ada.token))

    with psycopg.connect(database_url) as meanwhile:
        meanwhile.execute("select from users where id = %s for update", [ada.person.user])
        meanwhile.execute("delete from passkeys where id = %s", [first])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(remove)
            await ada.people.somebody_waits()
            meanwhile.commit()
    assert [answer.status for answer in answers] == [400]


async def test_whoever_is_deleted_meanwhile_adds_none(ada: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    credential = Passkey.made().create(await ada.options())
    gone = "delete from users where id = %s"
    meanwhile(monkeypatch, AccountRows, "hold", lambda: ada.people.change(gone, ada.person.user))
    # Before any row is locked: the locking statement is sent together with the next one.
    assert (await ada.send(credential)).status == 409
    assert ada.people.rows("select from passkeys") == []


async def test_of_the_last_two_at_once_one_stays(ada: Owner) -> None:
    ids = [(await ada.add())[1] for _ in range(2)]
    statuses: list[int] = []

    async def remove(id_: UUID) -> None:
        statuses.append((await ada.client.request("DELETE", f"{PASSKEYS}/{id_}", token=ada.token)).status)

    async with trio.open_nursery() as nursery:
        for id_ in ids:
            nursery.start_soon(remove, id_)
    assert sorted(statuses) == [204, 400]
    assert len(ada.people.rows("select from passkeys")) == 1


def signed_by_another(credential: dict[str, Any]) -> None:
    other = Passkey.made()
    data, client_data = (unb64(credential["response"][name]) for name in ("authenticatorData", "clientDataJSON"))
    credential["response"]["signature"] = b64(other.sign(data + hashlib.sha256(client_data).digest()))


@pytest.mark.parametrize(
    ("made", "what"),
    [
        ({"origin": "https://evil.example"}, {}),
        ({"relying_party": "evil.example"}, {}),
        ({"flags": PRESENT}, {}),
        ({"flags": VERIFIED}, {}),
        ({"flags": GOOD | BACKED_UP}, {}),
        ({}, {"crossOrigin": True}),
        ({}, {"type": "webauthn.create"}),
        ({}, {"user_handle": None}),
        ({}, {"user_handle": b"x" * 16}),
    ],
)
async def test_what_is_wrong_with_an_answer_is_refused_and_logged(ada: Owner, made: dict[str, Any], what: dict[str, Any]) -> None:
    passkey, _ = await ada.add()
    used = replace(passkey, **made)
    options = await ada.request()
    answer = await ada.client.post(SIGN_IN, {"credential": used.get(options, **what)})
    assert (answer.status, answer.json()["error"]) == (401, "This passkey was not accepted")
    (event,) = ada.people.rows("select user_id, provider, reason from login_events")
    assert event == {"user_id": ada.person.user, "provider": "passkey", "reason": "wrong_passkey"}
    # The refused answer has used the challenge up.
    assert (await ada.client.post(SIGN_IN, {"credential": passkey.get(options)})).status == 401
    assert (await ada.sign_in(passkey)).status == 200


@pytest.mark.parametrize(("made", "then"), [(GOOD, GOOD | ELIGIBLE | BACKED_UP), (GOOD | ELIGIBLE, GOOD)])
async def test_one_that_says_otherwise_whether_it_may_be_copied_is_refused(ada: Owner, made: int, then: int) -> None:
    """Web Authentication, section 7.2. A session's record of its key relies on this flag."""
    passkey, _ = await ada.add(Passkey.made(flags=made))
    assert (await ada.sign_in(replace(passkey, flags=then))).status == 401
    (event,) = ada.people.rows("select user_id, reason from login_events")
    assert event == {"user_id": ada.person.user, "reason": "wrong_passkey"}
    assert (await ada.sign_in(passkey)).status == 200


async def test_an_answer_whose_data_cannot_be_read_uses_the_challenge_up(ada: Owner) -> None:
    passkey, _ = await ada.add()
    options = await ada.request()
    broken = passkey.get(options)
    broken["response"]["authenticatorData"] = b64(b"\0" * 36)
    assert (await ada.client.post(SIGN_IN, {"credential": broken})).status == 401
    assert (await ada.client.post(SIGN_IN, {"credential": passkey.get(options)})).status == 401
    assert [row["reason"] for row in ada.people.rows("select reason from login_events")] == ["wrong_passkey"]


async def test_a_wrong_signature_a_wrong_challenge_and_an_unknown_key(ada: Owner, bob: Owner) -> None:
    passkey, _ = await ada.add()
    await bob.add()
    forged = passkey.get(await ada.request())
    signed_by_another(forged)
    assert (await ada.client.post(SIGN_IN, {"credential": forged})).json()["error"] == "This passkey was not accepted"
    assert (await ada.client.post(SIGN_IN, {"credential": passkey.get({"challenge": "bm90IG91cnM"})})).status == 401
    # A key that nobody has, and Bob's handle with Ada's key.
    assert (await ada.sign_in(Passkey.made())).status == 401
    handed = passkey.get(await ada.request(), user_handle=bob.person.user.bytes)
    assert (await ada.client.post(SIGN_IN, {"credential": handed})).status == 401
    late = await ada.request()
    ada.people.change("update passkey_challenges set expires_at = now() - interval '1 second'")
    answer = await ada.client.post(SIGN_IN, {"credential": passkey.get(late)})
    assert (answer.status, "took too long" in answer.json()["error"]) == (401, True)
    reasons = ada.people.rows("select user_id, reason from login_events order by id")
    assert [(row["user_id"], row["reason"]) for row in reasons] == [
        (ada.person.user, "wrong_passkey"),
        (None, "wrong_passkey"),
        (ada.person.user, "wrong_passkey"),
    ]
    assert ada.people.rows("select from sessions where id <> all(%s)", [ada.person.session, bob.person.session]) == []


async def test_an_answer_that_cannot_be_read_is_refused(ada: Owner) -> None:
    passkey, _ = await ada.add()
    good = passkey.get(await ada.request())
    response = good["response"]
    for broken, status in (
        ({**good, "response": {**response, "authenticatorData": ""}}, 401),
        ({**good, "response": {**response, "authenticatorData": b64(b"\0" * 2000)}}, 401),
        ({**good, "response": {**response, "authenticatorData": b64(unb64(response["authenticatorData"]) + b"\0")}}, 401),
        ({**good, "response": {**response, "clientDataJSON": b64(b"{}")}}, 401),
        ({**good, "response": {**response, "clientDataJSON": b64(json.dumps({"challenge": "\ud800"}).encode())}}, 401),
        ({**good, "response": {**response, "signature": "="}}, 401),
        ({**good, "id": "A"}, 400),
        ({**good, "response": {}}, 400),
        ({**good, "type": "password"}, 400),
        (7, 400),
    ):
        assert (await ada.client.post(SIGN_IN, {"credential": broken})).status == status, broken


async def test_a_counter_that_goes_back_is_refused_and_told(ada: Owner) -> None:
    passkey, id_ = await ada.add(Passkey.made(counts=True, counter=5))
    assert (await ada.sign_in(passkey)).status == 200
    assert ada.people.rows("select sign_count from passkeys") == [{"sign_count": 6}]
    # The same counter again, a lower one, and none: each shows a copy of the key.
    for counter in (5, 1):
        passkey.counter = counter
        assert (await ada.sign_in(passkey)).status == 401
    assert (await ada.sign_in(replace(passkey, counts=False, counter=0))).status == 401
    assert [row["reason"] for row in ada.people.rows("select reason from login_events where not success")] == ["copied_passkey"] * 3
    entries = ada.people.rows("select success, details from audit_log where action = 'security.passkey.copied'")
    assert [(row["success"], row["details"]["passkey_id"]) for row in entries] == [(False, str(id_))] * 3
    mails = [mail.subject for mail in await Postbox(ada.postern).empty()]
    assert mails.count("A sign-in with your passkey was denied") == 3
    passkey.counter = 6
    assert (await ada.sign_in(passkey)).status == 200


async def test_fifty_with_one_answer_open_one_session(ada: Owner) -> None:
    passkey, _ = await ada.add()
    credential = passkey.get(await ada.request())
    statuses: list[int] = []

    async def send() -> None:
        statuses.append((await ada.client.post(SIGN_IN, {"credential": credential})).status)

    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(send)
    assert sorted(statuses) == [200] + [401] * 49
    assert len(ada.people.rows("select from sessions where id <> %s", ada.person.session)) == 1


async def test_of_two_uses_with_one_counter_one_signs_in(ada: Owner) -> None:
    """A copy is used at the same moment. Both counters are higher than the kept one, but only one is accepted."""
    passkey, _ = await ada.add(Passkey.made(counts=True))
    first, second = replace(passkey).get(await ada.request()), replace(passkey).get(await ada.request())
    statuses: list[int] = []

    async def send(credential: dict[str, Any]) -> None:
        statuses.append((await ada.client.post(SIGN_IN, {"credential": credential})).status)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send, first)
        nursery.start_soon(send, second)
    assert sorted(statuses) == [200, 401]


@pytest.mark.parametrize(
    ("change", "reason"),
    [("deactivated_at = now()", "deactivated"), ("email_verified_at = null", "email_not_verified")],
)
async def test_a_disabled_account_is_not_signed_in_to(ada: Owner, change: str, reason: str) -> None:
    passkey, _ = await ada.add()
    ada.people.change(f"update users set {change} where id = %s", ada.person.user)
    assert (await ada.sign_in(passkey)).status == 401
    assert [row["reason"] for row in ada.people.rows("select reason from login_events")] == [reason]


@pytest.mark.parametrize("change", ["update users set deactivated_at = now() where id = %s", "delete from passkeys where user_id = %s"])
async def test_what_changes_while_an_answer_is_checked_counts(ada: Owner, change: str) -> None:
    passkey, _ = await ada.add()
    given = msgspec.convert(passkey.get(await ada.request()), AssertionCredential).assertion()
    arrival = await ada.postern.identity.passkey_proofs.make(given, NOBODY, Visitor("192.0.2.1", FIREFOX))
    ada.people.change(change, ada.person.user)
    with pytest.raises(PasskeyRefused):
        await ada.postern.identity.sign_in.with_proof(arrival)
    assert ada.people.rows("select from login_events where success") == []


async def test_what_it_opened_ends_when_it_is_removed(ada: Owner) -> None:
    """As with a new password: a thief who signed in by the passkey is out, and the owner's session goes on."""
    stolen, id_ = await ada.add()
    kept, other = await ada.add()
    thief = (await ada.sign_in(stolen)).json()
    ada.people.change("update users set pending_email = 'thief@evil.example', pending_email_key = 'thief@evil.example'")
    # This session was opened from the owner's own, so it goes on, too.
    tenants = Tenants(ada.postern, ada.people)
    acme = tenants.add("acme")
    tenants.join(ada.person, acme)
    chosen = await ada.client.post("/api/organizations/acme/select", token=ada.token)
    assert (await ada.client.request("DELETE", f"{PASSKEYS}/{id_}", token=ada.token)).status == 204
    for answer in (
        await ada.client.get("/api/user", token=thief["access_token"]),
        await ada.client.post("/api/auth/refresh", {"refresh_token": thief["refresh_token"]}),
    ):
        assert answer.status == 401
    assert (await ada.client.get("/api/user", token=ada.token)).status == 200
    assert (await ada.client.get("/api/user", token=chosen.json()["access_token"])).status == 200
    assert ada.people.rows("select pending_email from users") == [{"pending_email": None}]
    mail = (await Postbox(ada.postern).empty())[-1]
    assert "all other devices were signed out" in " ".join(mail.text.split())
    # When the passkey is removed in a session that it opened itself, that session goes on.
    own = (await ada.sign_in(kept)).json()["access_token"]
    await ada.add()
    assert (await ada.client.request("DELETE", f"{PASSKEYS}/{other}", token=own)).status == 204
    assert (await ada.client.get("/api/user", token=own)).status == 200
    assert (await ada.client.get("/api/user", token=ada.token)).status == 401


async def test_a_removed_passkey_signs_nobody_in(ada: Owner) -> None:
    passkey, id_ = await ada.add()
    await ada.add()
    assert (await ada.client.request("DELETE", f"{PASSKEYS}/{id_}", token=ada.token)).status == 204
    assert (await ada.sign_in(passkey)).status == 401


async def test_passkeys_go_with_the_account(ada: Owner) -> None:
    await ada.add()
    ada.people.change("delete from users where id = %s", ada.person.user)
    assert ada.people.rows("select from passkeys") == []


# The look-ups of the caller and of the fresh proof included, and without the limits by address, which take one more.
ROUND_TRIPS = [(OPTIONS, 4), (PASSKEYS, 4), (SIGN_IN_OPTIONS, 1), (SIGN_IN, 5), ("list", 2), ("remove", 6)]


async def test_round_trips(ada: Owner, log: CapturedLog) -> None:
    passkey, id_ = await ada.add()
    await ada.sign_in(passkey)
    log.entries.clear()
    passkey, id_ = await ada.add()
    await ada.sign_in(passkey)
    await ada.client.get(PASSKEYS, token=ada.token)
    await ada.client.request("DELETE", f"{PASSKEYS}/{id_}", token=ada.token)
    assert [entry["db_round_trips"] for entry in log.events("request")] == [number for _, number in ROUND_TRIPS]


async def test_signing_in_to_a_service(ada: Owner) -> None:
    passkey, _ = await ada.add()
    tenants = Tenants(ada.postern, ada.people)
    tenants.service(tenants.add("acme"), "shop")
    where = {"org_slug": "acme", "service_slug": "shop"}
    answer = await ada.sign_in(passkey, **where)
    assert answer.status == 200, answer.body
    profile = (await ada.client.get("/api/user", token=answer.json()["access_token"])).json()
    assert (profile["org"], profile["service"]) == ("acme", "shop")
    assert (await ada.sign_in(passkey, org_slug="acme", service_slug="none")).status == 404
    assert (await ada.sign_in(passkey, service_slug="shop")).status == 400


# As the second factor.


@dataclass
class Protected(Owner):
    """A person with a password, and with passkeys as the second factor."""

    codes: list[str] = field(default_factory=list)

    async def turn_on(self) -> Received:
        answer = await self.client.post(SECOND_FACTOR, token=self.token)
        if answer.status == 200:
            self.codes = answer.json()["backup_codes"]
        return answer

    async def status(self) -> Any:
        return (await self.client.get(STATUS, token=self.token)).json()

    async def login(self) -> Received:
        return await self.browser.login(self.person)


@pytest.fixture
async def carol(client: Client, people: People, postern: Postern) -> Protected:
    person = people.session_of(await people.with_password(PASSWORD, "carol@example.org"))
    return Protected(client, people, postern, person, await people.token(person))


async def test_passkeys_become_the_second_factor_and_bring_backup_codes(carol: Protected) -> None:
    answer = await carol.turn_on()
    assert (answer.status, answer.json()["error"]) == (400, "You have no passkey: add one first")
    passkey, _ = await carol.add()
    # A passkey that only signs in is no second factor: the password alone is still enough.
    assert await carol.status() == {"enabled": False, "has_backup_codes": False}
    assert "mfa_required" not in (await carol.login()).json()
    answer = await carol.turn_on()
    assert (answer.status, answer.json()["enabled"], len(carol.codes)) == (200, True, 10)
    assert await carol.status() == {"enabled": True, "has_backup_codes": True}
    listed = (await carol.client.get(PASSKEYS, token=carol.token)).json()
    assert [one["second_factor"] for one in listed["passkeys"]] == [True]
    carol.people.change("update sessions set second_factor_at = now()")
    again = await carol.turn_on()
    assert (again.status, again.json()["error"]) == (400, "MFA is already enabled")
    waiting = (await carol.login()).json()
    assert (waiting["mfa_required"], waiting["refresh_token"]) == (True, "")
    preauth = waiting["access_token"]
    assert (await carol.browser.verify(preauth, "000000")).status == 401
    verified = await carol.browser.verify(preauth, carol.codes[0])
    assert verified.status == 200, verified.body
    assert (await carol.browser.verify((await carol.login()).json()["access_token"], carol.codes[0])).status == 401
    # A sign-in by passkey alone needs no second factor.
    assert (await carol.sign_in(passkey)).status == 200
    # A new passkey has the same use as the others.
    await carol.add()
    listed = (await carol.client.get(PASSKEYS, token=carol.token)).json()
    assert [one["second_factor"] for one in listed["passkeys"]] == [True, True]
    subjects = [mail.subject for mail in await Postbox(carol.postern).empty()]
    assert subjects.count("Two-step sign-in is turned on") == 1
    actions = [row["action"] for row in carol.people.rows("select action from audit_log order by created_at, id")]
    assert actions.count("security.mfa.enabled") == 1


async def test_turning_it_off_leaves_the_passkeys(carol: Protected) -> None:
    passkey, _ = await carol.add()
    await carol.turn_on()
    carol.people.change("update sessions set second_factor_at = now()")
    assert (await carol.client.request("DELETE", DISABLE, token=carol.token)).status == 200
    assert await carol.status() == {"enabled": False, "has_backup_codes": False}
    assert "mfa_required" not in (await carol.login()).json()
    assert (await carol.sign_in(passkey)).status == 200
    assert [row["name"] for row in carol.people.rows("select name from mfa_events where name = 'mfa_disabled'")] == ["mfa_disabled"]


async def test_it_ends_with_the_last_passkey_and_with_no_other(carol: Protected) -> None:
    ids = [(await carol.add())[1] for _ in range(2)]
    await carol.turn_on()
    carol.people.change("update sessions set second_factor_at = now()")
    assert (await carol.client.request("DELETE", f"{PASSKEYS}/{ids[0]}", token=carol.token)).status == 204
    assert await carol.status() == {"enabled": True, "has_backup_codes": True}
    assert (await carol.client.request("DELETE", f"{PASSKEYS}/{ids[1]}", token=carol.token)).status == 204
    assert await carol.status() == {"enabled": False, "has_backup_codes": False}
    subjects = [mail.subject for mail in await Postbox(carol.postern).empty()]
    assert subjects.count("Two-step sign-in is turned off") == 1


async def with_app(who: Owner) -> Received:
    secret = await who.client.post("/api/user/mfa/setup", token=who.token)
    if secret.status != 200:
        return secret
    code = pyotp.TOTP(secret.json()["secret"]).now()
    return await who.client.post("/api/user/mfa/verify", {"code": code}, token=who.token)


async def test_an_app_beside_passkeys_needs_a_fresh_proof_of_them(carol: Protected) -> None:
    _, id_ = await carol.add()
    # A set-up that somebody with the open session began before the second factor was on.
    pending = (await carol.client.post("/api/user/mfa/setup", token=carol.token)).json()["secret"]
    await carol.turn_on()
    code = pyotp.TOTP(pending).now()
    for answer in (
        await carol.client.post("/api/user/mfa/setup", token=carol.token),
        await carol.client.post("/api/user/mfa/verify", {"code": code}, token=carol.token),
    ):
        assert (answer.status, answer.json()["error_code"]) == (401, "REAUTHENTICATION_REQUIRED")
    answer = await carol.client.post("/api/auth/reauthenticate", {"code": carol.codes[0]}, token=carol.token)
    assert answer.status == 200, answer.body
    added = await with_app(carol)
    assert added.status == 200, added.body
    assert len(added.json()["backup_codes"]) == 10
    # Now the app stays when the passkey is removed.
    assert (await carol.client.request("DELETE", f"{PASSKEYS}/{id_}", token=carol.token)).status == 204
    assert await carol.status() == {"enabled": True, "has_backup_codes": True}


async def test_whoever_has_an_app_needs_not_turn_it_on(carol: Protected) -> None:
    assert (await with_app(carol)).status == 200
    passkey, _ = await carol.add()
    assert (await carol.turn_on()).status == 400
    assert (await carol.sign_in(passkey)).status == 200


async def test_new_backup_codes_for_passkeys(carol: Protected) -> None:
    await carol.add()
    await carol.turn_on()
    carol.people.change("update sessions set second_factor_at = now()")
    answer = await carol.client.post("/api/user/mfa/backup-codes/regenerate", token=carol.token)
    assert (answer.status, len(answer.json()["backup_codes"])) == (200, 10)
    preauth = (await carol.login()).json()["access_token"]
    assert (await carol.browser.verify(preauth, carol.codes[1])).status == 401
    assert (await carol.browser.verify(preauth, answer.json()["backup_codes"][0])).status == 200


async def test_an_operator_resets_it_and_the_passkeys_stay(carol: Protected) -> None:
    passkey, _ = await carol.add()
    await carol.turn_on()
    boss = carol.people.add("boss@example.org", platform_owner=True)
    token = await carol.people.token(boss, is_platform_owner=True)
    place = f"/api/platform/users/{carol.person.user}/mfa"
    assert (await carol.client.get(f"{place}/status", token=token)).json()["mfa_enabled"] is True
    assert (await carol.client.request("DELETE", place, body={"reason": "lost"}, token=token)).status == 200
    assert (await carol.client.get(f"{place}/status", token=token)).json()["mfa_enabled"] is False
    assert await carol.status() == {"enabled": False, "has_backup_codes": False}
    assert (await carol.sign_in(passkey)).status == 200


@pytest.mark.parametrize("host", ["https://192.0.2.1", "https://[2001:db8::1]:8443", "http://id.example.org"])
async def test_an_installation_that_cannot_have_them_says_why(ada: Owner, host: str) -> None:
    passkey, _ = await ada.add()
    options = await ada.request()
    put(ada.postern.identity.passkeys, relying_party=relying_party(host))
    for answer in (
        await ada.client.post(OPTIONS, token=ada.token),
        await ada.client.post(SIGN_IN_OPTIONS),
        await ada.send(Passkey.made().create({**options, "user": {"id": "AA"}})),
        await ada.client.post(SIGN_IN, {"credential": passkey.get(options)}),
    ):
        assert answer.status == 400
        assert answer.json()["error"].startswith("Passkeys require a base URL")
    # The passkeys can still be listed and removed.
    assert (await ada.client.get(PASSKEYS, token=ada.token)).json()["total"] == 1


async def test_round_trips_of_turning_it_on(carol: Protected, log: CapturedLog) -> None:
    await carol.add()
    await carol.turn_on()
    carol.people.change("update sessions set second_factor_at = now()")
    await carol.client.request("DELETE", DISABLE, token=carol.token)
    log.entries.clear()
    assert (await carol.turn_on()).status == 200
    assert [entry["db_round_trips"] for entry in log.events("request")] == [5]


async def test_an_app_that_is_confirmed_while_passkeys_are_turned_on_does_not_slip_in(carol: Protected) -> None:
    """Whichever request is first, the other is refused."""
    await carol.add()
    pending = (await carol.client.post("/api/user/mfa/setup", token=carol.token)).json()["secret"]
    answers: dict[str, Received] = {}

    async def send(name: str, path: str, body: Any = None) -> None:
        answers[name] = await carol.client.post(path, body, token=carol.token)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send, "passkeys", SECOND_FACTOR)
        nursery.start_soon(send, "app", "/api/user/mfa/verify", {"code": pyotp.TOTP(pending).now()})
    assert sorted(answer.status == 200 for answer in answers.values()) == [False, True], [one.body for one in answers.values()]


async def test_an_app_that_waited_for_passkeys_to_be_turned_on_does_not_slip_in(carol: Protected, database_url: str) -> None:
    await carol.add()
    pending = (await carol.client.post("/api/user/mfa/setup", token=carol.token)).json()["secret"]
    answers: list[Received] = []

    async def confirm() -> None:
        answers.append(await carol.client.post("/api/user/mfa/verify", {"code": pyotp.TOTP(pending).now()}, token=carol.token))

    with psycopg.connect(database_url) as meanwhile:
        meanwhile.execute("select from mfa_secrets for update")
        meanwhile.execute("update passkeys set second_factor_since = now()")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(confirm)
            await carol.people.somebody_waits()
            meanwhile.commit()
    assert [answer.status for answer in answers] == [400]
    assert carol.people.rows("select from mfa_secrets where enabled_at is not null") == []


# As a fresh proof.


async def prove(who: Owner, passkey: Passkey, **more: Any) -> Received:
    answer = await who.client.post(f"{REAUTHENTICATE}/options", token=who.token)
    assert answer.status == 200, answer.body
    return await who.client.post(REAUTHENTICATE, {"passkey": passkey.get(answer.json(), **more)}, token=who.token)


async def test_it_proves_both_factors_once_more(carol: Protected) -> None:
    passkey, id_ = await carol.add()
    await carol.turn_on()
    carol.grow_old()
    options = (await carol.client.post(f"{REAUTHENTICATE}/options", token=carol.token)).json()
    assert [one["id"] for one in options["allowCredentials"]] == [b64(passkey.credential_id)]
    assert (await prove(carol, passkey, user_handle=None)).status == 200
    assert (await carol.client.request("DELETE", f"{PASSKEYS}/{id_}", token=carol.token)).status == 204
    (row,) = carol.people.rows("select proved_at = second_factor_at as both from sessions where id = %s", carol.person.session)
    assert row["both"] is True


async def test_a_fresh_proof_is_the_sessions_own(carol: Protected, bob: Owner) -> None:
    passkey, _ = await carol.add()
    bobs, _ = await bob.add()
    carol.grow_old()
    # Bob's passkey, a challenge of his session, and a challenge for a sign-in.
    assert (await prove(carol, bobs)).status == 401
    his = (await bob.client.post(f"{REAUTHENTICATE}/options", token=bob.token)).json()
    for options in (his, await carol.request()):
        assert (await carol.client.post(REAUTHENTICATE, {"passkey": passkey.get(options)}, token=carol.token)).status == 401
    both = {"passkey": passkey.get(his), "password": PASSWORD}
    for body in (both, {}):
        answer = await carol.client.post(REAUTHENTICATE, body, token=carol.token)
        assert (answer.status, answer.json()["error"]) == (400, "Send one of password, code and passkey")
    assert (await carol.client.post(OPTIONS, token=carol.token)).json()["error_code"] == "REAUTHENTICATION_REQUIRED"

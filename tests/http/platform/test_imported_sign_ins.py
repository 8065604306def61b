"""People sign in with what they had in the other system: password, authenticator app, passkey."""

import base64
import json
from pathlib import Path
from typing import Any

import pyotp
import pytest

from core.domain.identity.foreign_hashes.sources import hash_form
from core.domain.platform.imports.decisions import ImportRules
from entrypoints.bootstrap import Postern
from tests.adapters.imports.importing import SAMPLES, imported, people_file, planned
from tests.authenticator import BACKED_UP, ELIGIBLE, GOOD, Passkey, cbor
from tests.foreign_hashes import FORMED, TYPED, UNREAD
from tests.http.client import Client, Received
from tests.http.people import People
from tests.http.signing_in import LOGIN, Browser, unlimited

PASSWORD = "correct horse battery"
ADA_AT_KEYCLOAK = "0c8a4f6c-8f0e-4d1d-9d6f-5a6d2f5b9a01"
PASSKEYS = ImportRules(trusts_verified=True, relying_party="id.example.org")


@pytest.fixture
def client(postern: Postern) -> Client:
    return unlimited(postern)


async def logged_in(client: Client, email: str, password: str) -> Received:
    return await Browser(client).post(LOGIN, {"email": email, "password": password})


async def test_the_old_password_signs_in_and_its_hash_is_renewed(postern: Postern, people: People, client: Client) -> None:
    await imported(postern, "keycloak", SAMPLES / "acme-realm.json")
    await imported(postern, "auth0", SAMPLES / "auth0-users.ndjson", hashes=SAMPLES / "auth0-hashes.ndjson")
    for email, password in (("grace@example.org", "an older password"), ("nico9090@example.org", PASSWORD)):
        assert (await logged_in(client, email, "another one entirely")).status == 401
        answer = await logged_in(client, email, password)
        assert answer.status == 200, answer.body
        (row,) = people.rows("select password_hash from users where email = %s", email)
        assert row["password_hash"].startswith("$argon2id$")
        assert (await logged_in(client, email, password)).status == 200


@pytest.mark.parametrize("kind", ["csv", "postern"])
async def test_whoever_names_the_form_of_hashes_brings_their_passwords(
    kind: str, postern: Postern, people: People, client: Client, tmp_path: Path
) -> None:
    form, text, _ = FORMED["npm better-auth"]
    salt, _, digest = text.partition(":")
    if kind == "csv":
        file = tmp_path / "people.csv"
        rows = [f"ada@example.org,{text},", f"grace@example.org,{digest},{salt}", f"joan@example.org,{UNREAD['passlib md5_crypt'][0]},"]
        file.write_text("".join(f"{row}\n" for row in ("email,password_hash,password_salt", *rows)))
    else:
        ada, grace, joan = ({"id": name, "email": f"{name}@example.org"} for name in ("ada", "grace", "joan"))
        hashed = [{**ada, "password_hash": text}, {**grace, "password_hash": digest, "password_salt": salt}]
        file = people_file(tmp_path / "people.ndjson", [*hashed, {**joan, "password_hash": UNREAD["passlib md5_crypt"][0]}])
    done = await imported(postern, kind, file, form=hash_form(form))
    told = "password: The hash is $1$, md5-crypt, which is not read; a new one has to be chosen"
    assert (done.notes("joan@example.org"), done.tally.stayed_behind[told]) == ((told,), 1)
    people.change("update users set email_verified_at = now()")
    for email in ("ada@example.org", "grace@example.org"):
        (row,) = people.rows("select password_hash from users where email = %s", email)
        assert row["password_hash"].startswith("$foreign$scrypt$ln=14,r=16,p=1,l=64$")
        assert (await logged_in(client, email, TYPED.swapcase())).status == 401
        assert (await logged_in(client, email, TYPED)).status == 200


async def test_the_authenticator_app_is_asked_for_as_before(postern: Postern, client: Client) -> None:
    await imported(postern, "keycloak", SAMPLES / "acme-realm.json")
    browser = Browser(client)
    first = (await browser.post(LOGIN, {"email": "ada@example.org", "password": PASSWORD})).ok()
    assert first["mfa_required"] is True
    # Keycloak takes the letters of the text for the secret, and shows them to apps in base32.
    app = pyotp.TOTP(base64.b32encode(b"vFoYqZ3mtDmPq8rRkc0B").decode())
    answer = await browser.verify(first["access_token"], app.now())
    assert answer.status == 200, answer.body


async def test_a_disabled_account_stays_out(postern: Postern, people: People, client: Client) -> None:
    await imported(postern, "auth0", SAMPLES / "auth0-users.ndjson", hashes=SAMPLES / "auth0-hashes.ndjson")
    people.change("update users set email_verified_at = now()")
    assert (await logged_in(client, "euclid@example.org", PASSWORD)).status == 401


async def test_an_address_that_nobody_has_proved_signs_nobody_in(postern: Postern, client: Client) -> None:
    await imported(postern, "keycloak", SAMPLES / "acme-realm.json", rules=ImportRules())
    answer = await logged_in(client, "grace@example.org", "an older password")
    assert answer.status == 401
    assert "not verified" in answer.json()["error"]


def realm_with(tmp_path: Path, passkey: Passkey, kind: str, party: str = "") -> Path:
    realm: dict[str, Any] = json.loads((SAMPLES / "acme-realm.json").read_text())
    told = {
        "aaguid": "00000000-0000-0000-0000-000000000000",
        "credentialId": base64.b64encode(passkey.credential_id).decode(),
        "counter": 0,
        "credentialPublicKey": base64.urlsafe_b64encode(cbor(passkey.cose())).decode().rstrip("="),
        "attestationStatementFormat": "none",
        "transports": ["internal"],
    }
    realm["webAuthnPolicyPasswordlessRpId"] = party
    ada, grace, *_ = realm["users"]
    ada["credentials"] = [{"type": kind, "userLabel": "Laptop", "secretData": "{}", "credentialData": json.dumps(told)}]
    realm["users"] = [ada, grace]
    path = tmp_path / f"{kind}.json"
    path.write_text(json.dumps(realm))
    return path


async def with_passkey(client: Client, passkey: Passkey) -> Received:
    options = (await client.post("/api/auth/passkeys/options")).ok()
    return await Browser(client).post("/api/auth/passkeys", {"credential": passkey.get(options)})


async def test_a_passkey_of_keycloak_signs_in(postern: Postern, people: People, client: Client, tmp_path: Path) -> None:
    passkey = Passkey.made(user_handle=ADA_AT_KEYCLOAK.encode(), flags=GOOD | ELIGIBLE | BACKED_UP)
    await imported(postern, "keycloak", realm_with(tmp_path, passkey, "webauthn-passwordless"), rules=PASSKEYS)
    (row,) = people.rows("select name, awaits_first_use, backup_eligible, second_factor_since from passkeys")
    assert row == {"name": "Laptop", "awaits_first_use": True, "backup_eligible": False, "second_factor_since": None}
    answer = await with_passkey(client, passkey)
    assert answer.status == 200, answer.body
    (row,) = people.rows("select awaits_first_use, backup_eligible from passkeys")
    assert row == {"awaits_first_use": False, "backup_eligible": True}
    assert (await with_passkey(client, passkey)).status == 200
    # From the first use on, it is as it was then.
    passkey.flags = GOOD
    assert (await with_passkey(client, passkey)).status == 401
    # Nobody else's name opens it.
    passkey.flags, passkey.user_handle = GOOD | ELIGIBLE | BACKED_UP, people.rows("select user_id from passkeys")[0]["user_id"].bytes
    assert (await with_passkey(client, passkey)).status == 401


async def test_a_second_factor_stays_one(postern: Postern, people: People, tmp_path: Path) -> None:
    passkey = Passkey.made(user_handle=ADA_AT_KEYCLOAK.encode())
    await imported(postern, "keycloak", realm_with(tmp_path, passkey, "webauthn"), rules=PASSKEYS)
    (row,) = people.rows("select second_factor_since from passkeys")
    assert row["second_factor_since"] is not None


@pytest.mark.parametrize(
    ("party", "rules", "says"),
    [
        ("", ImportRules(trusts_verified=True), "passkeys: their relying party is unknown: specify it with --relying-party"),
        ("login.example.com", PASSKEYS, "passkeys: they belong to login.example.com, and not to id.example.org"),
        ("", ImportRules(trusts_verified=True, relying_party="x.example"), "passkeys: they belong to x.example, and not to id.example.org"),
        ("", ImportRules(relying_party="id.example.org"), "passkeys: a passkey signs in to a verified address alone"),
    ],
)
async def test_passkeys_of_another_host_stay_behind(
    postern: Postern, people: People, tmp_path: Path, party: str, rules: ImportRules, says: str
) -> None:
    done = await imported(postern, "keycloak", realm_with(tmp_path, Passkey.made(), "webauthn-passwordless", party), rules=rules)
    assert says in done.notes("ada@example.org")
    assert people.rows("select * from passkeys") == []


async def test_a_key_that_nobody_could_check_stays_behind(postern: Postern, people: People, tmp_path: Path) -> None:
    good = Passkey.made()
    keys = [b"no cbor", cbor({1: 2, 3: -7, -1: 1, -2: b"x", -3: b"y"}), cbor({1: 3, 3: -65535, -1: b"n", -2: b"e"}), cbor(good.cose())]
    passkeys = [
        {"credential_id": base64.b64encode(bytes([number])).decode(), "public_key": base64.b64encode(key).decode()}
        for number, key in enumerate(keys)
    ]
    person = {"id": "00000000-0000-7000-8000-000000000001", "email": "ada@example.org", "email_verified": True, "passkeys": passkeys}
    file = people_file(tmp_path / "people.ndjson", [person], relying_party="id.example.org")
    plan = await planned(postern, "postern", file)
    done = await imported(postern, "postern", file)
    assert plan.lines[0].notes == done.lines[0].notes
    assert len(done.notes("ada@example.org")) == 3
    assert [row["credential_id"] for row in people.rows("select credential_id from passkeys")] == [b"\x03"]

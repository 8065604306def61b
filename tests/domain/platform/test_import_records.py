"""Records of other systems: what is taken of each, and what stays behind with which note."""

import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest

from core.domain.errors import BadRequest
from core.domain.platform.imports import auth0, keycloak, tables
from core.domain.platform.imports import postern as own
from core.domain.platform.imports.clients import document
from core.domain.platform.imports.keycloak_clients import RealmParts, foreign_parts
from core.domain.platform.imports.records import MOST_NOTES, ImportedPerson, LeftOut, Notes, bytes_of, shown
from core.domain.platform.imports.reports import Outcome, ReportLine, Tally

NO_SECRET = "second factor: the secret is no base32 of 10 to 80 bytes"
HASHES_FILE = "a line of the file of password hashes: name that file with --hashes"
REALM = keycloak.KeycloakRealm(name="acme", brokers={"google": keycloak.Broker("https://accounts.google.com", "")})
ARGON2 = {
    "hashIterations": 5,
    "algorithm": "argon2",
    "additionalParameters": {"type": ["id"], "version": ["1.3"], "memory": ["7168"], "parallelism": ["1"]},
}
PASSWORD = {
    "type": "password",
    "credentialData": json.dumps(ARGON2),
    "secretData": json.dumps({"value": base64.b64encode(bytes(32)).decode(), "salt": base64.b64encode(bytes(16)).decode()}),
}


def at_keycloak(**more: Any) -> ImportedPerson:
    return keycloak.person({"id": "1", "email": "ada@example.org", "enabled": True, **more}, "here", REALM)


def otp(secret: Mapping[str, Any], **told: Any) -> dict[str, Any]:
    return {
        "type": "otp",
        "secretData": json.dumps(secret),
        "credentialData": json.dumps({"subType": "totp", "digits": 6, "period": 30, **told}),
    }


def webauthn(**told: Any) -> dict[str, Any]:
    return {"type": "webauthn", "credentialData": json.dumps({"credentialId": "YWI=", "credentialPublicKey": "YWI", "counter": 0, **told})}


@pytest.mark.parametrize(
    ("more", "notes"),
    [
        ({"federationLink": "ldap", "enabled": True}, ("password: the person comes from a directory, which keeps it",)),
        (
            {"credentials": [PASSWORD], "requiredActions": ["UPDATE_PASSWORD"]},
            ("password: Keycloak would ask for another one; a new one has to be chosen",),
        ),
        ({"credentials": [{"type": "password", "value": "plain"}]}, ("password: is no hash; a new one has to be chosen",)),
        ({"credentials": [{**PASSWORD, "temporary": True}]}, ("password: was to be used once; a new one has to be chosen",)),
        (
            {"credentials": [otp({"value": "x" * 20}, digits=8)]},
            ("second factor: only codes by time, of 6 digits, every 30 seconds, by SHA-1 are checked here; it stays behind",),
        ),
        ({"credentials": [otp({"value": "short"})]}, (NO_SECRET,)),
        ({"credentials": [otp({})]}, (NO_SECRET,)),
        (
            {"credentials": [{"type": "otp", "secretData": "{", "credentialData": "[]"}]},
            (NO_SECRET,),
        ),
        ({"credentials": [webauthn(counter=-1)]}, ("passkey: the credential is malformed",)),
        ({"credentials": [webauthn(credentialId="?")]}, ("passkey: the credential is malformed",)),
        ({"credentials": [5, {}]}, ("credentials: an entry is no object", "a credential: stays behind")),
        ({"credentials": "all"}, ("credentials: is no list",)),
        (
            {"federatedIdentities": [{"identityProvider": "corp", "userId": "1"}]},
            ("identity at corp: its issuer is not known; it stays behind",),
        ),
        ({"federatedIdentities": [{"identityProvider": "google"}]}, ("identity at google: its issuer is not known; it stays behind",)),
        ({"emailVerified": "yes"}, ("emailVerified: is neither true nor false",)),
        ({"attributes": [1]}, ("attributes: is no object",)),
        ({"groups": ["/a", 5]}, ("groups: an entry is no text, or too long",)),
        ({"groups": ["/a"] * 101}, ("groups: has more than 100 entries; the others stay behind",)),
        ({"firstName": "\u202e"}, ("given_name: is nothing that a profile can hold",)),
    ],
)
def test_what_stays_behind_of_a_person_of_keycloak(more: Mapping[str, Any], notes: tuple[str, ...]) -> None:
    made = at_keycloak(**more)
    assert made.notes == notes
    assert (made.password, made.totp, made.passkeys, made.identities) == (None, None, (), ())


def test_of_several_credentials_of_a_kind_the_first_counts() -> None:
    base32 = otp({"value": "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"}, secretEncoding="BASE32")
    made = at_keycloak(credentials=[PASSWORD, {**PASSWORD, "secretData": "{}"}, base32, otp({"value": "x" * 20}), webauthn(aaguid="?")])
    assert made.password is not None
    assert made.totp is not None
    assert made.totp.reveal() == "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"
    (passkey,) = made.passkeys
    assert (passkey.is_second_factor, passkey.user_handle, passkey.aaguid.int) == (True, b"1", 0)
    assert made.notes == (
        "password: there are several; the first counts",
        "second factor: there are several authenticator apps; the first counts",
    )


@pytest.mark.parametrize(
    ("read", "content", "reason"),
    [
        (lambda one: keycloak.person(one, "", REALM), [], "the entry is no object"),
        (lambda one: keycloak.person(one, "", REALM), {}, "username: is missing, or no text"),
        (lambda one: auth0.person(one, ""), "x", "the entry is no object"),
        (
            lambda one: auth0.person(one, ""),
            {"passwordHash": "$2b$10$x"},
            "a line of the file of password hashes: name that file with --hashes",
        ),
        (lambda one: auth0.person(one, ""), {}, "user_id: is missing, or no text"),
        (lambda one: auth0.person(one, ""), {"user_id": True}, "user_id: is missing, or no text"),
        (lambda one: own.person(one, ""), 5, "the line is no object"),
        (lambda one: own.person(one, ""), {"id": "x" * 256}, "id: has more than 255 characters"),
        (lambda one: tables.person(one, "", tables.TableMap({"email": "Mail"})), {"Mail": " "}, "email: is missing"),
    ],
)
def test_records_that_are_nobody(read: Any, content: Any, reason: str) -> None:
    with pytest.raises(LeftOut, match=reason.replace("$", r"\$")):
        read(content)


def test_what_stays_behind_of_a_user_of_auth0() -> None:
    made = auth0.person(
        {
            "user_id": 7,
            "email": "ada@example.org",
            "email_verified": "true",
            "multifactor": ["guardian"],
            "phone_number": "+43",
            "identities": [
                {"provider": "windowslive", "user_id": "1", "connection": "windowslive"},
                {"provider": "github", "user_id": 583231, "profileData": {"email": "octo@example.org"}},
            ],
        },
        "here",
    )
    assert (made.id, made.email_verified) == ("7", True)
    assert made.notes == (
        "second factor: Auth0 does not export it; it stays behind",
        "phone_number: there is no sign-in by telephone; it stays behind",
        "identity at windowslive: its issuer is not known; it stays behind",
    )
    (identity,) = made.identities
    assert (identity.issuer, identity.subject, identity.email) == ("https://github.com/login/oauth", "583231", "octo@example.org")
    assert auth0.hash_key([]) == ""


def test_the_first_line_of_our_own_form() -> None:
    wrong: list[Any] = [None, {}, {"postern_people": 2, "source": "x"}, {"postern_people": True, "source": "x"}, {"postern_people": 1}]
    for content in wrong:
        with pytest.raises(BadRequest):
            own.beginning(content)


def test_a_word_that_nobody_knows_keeps_a_person_out() -> None:
    row = {"Mail": "ada@example.org", "Off": "perhaps"}
    made = tables.person(row, "", tables.TableMap({"email": "Mail", "disabled": "Off"}))
    assert (made.is_disabled, made.notes) == (True, ("disabled: is neither yes nor no, and counts as yes",))
    assert own.person({"id": "1", "disabled": "perhaps"}, "").is_disabled


def test_a_column_that_means_nothing_is_told_where_it_holds_something() -> None:
    columns = tables.table_map(("email", "password", "shoe size"), {})
    read = tables.person({"email": "ada@example.com", "password": "$2b$10$…", "shoe size": " "}, "line 2", columns)
    assert read.notes == ("column password: is not read; --map says what it means",)
    assert tables.table_map(("email", "password"), {"password": "password_hash"}).unread == ()


def test_notes_are_few_short_and_on_one_line() -> None:
    notes = Notes()
    for number in range(2 * MOST_NOTES):
        notes.add(f"{number}\n{'x' * 1000}")
    assert len(notes.all) == MOST_NOTES
    assert all(len(note) == 201 and note.isprintable() for note in notes.all)
    assert shown("a\u202eb\x00") == "a?b?"


BASE64: list[tuple[str, bytes | None]] = [
    ("YWI", b"ab"),
    ("_-8=", b"\xff\xef"),
    ("/+8=", b"\xff\xef"),
    *((text, None) for text in ("", "?", "_/8", "A")),
]


@pytest.mark.parametrize(("text", "raw"), BASE64)
def test_base64_in_either_alphabet(text: str, raw: bytes | None) -> None:
    assert bytes_of(text) == raw


def test_a_report_counts_a_bounded_number_of_reasons() -> None:
    tally = Tally()
    for number in range(1000):
        tally.add(ReportLine("", "", "", Outcome.LEFT_OUT, notes=(f"reason {number}",)), {})
    assert len(tally.left_out) == 201
    assert tally.left_out["other reasons"] == 800


def test_a_document_of_what_a_realm_can_be() -> None:
    deep: dict[str, Any] = {"name": "leaf"}
    for _ in range(30):
        deep = {"name": "x", "subGroups": [deep]}
    clients: list[Any] = [
        5,
        {"clientId": "acme-realm"},
        {
            "clientId": "Mobile App",
            "enabled": False,
            "redirectUris": ["com.example.app:/callback"],
            "attributes": {"post.logout.redirect.uris": "http://elsewhere.example/bye", "backchannel.logout.url": "ftp://x"},
            "protocolMappers": [{"protocolMapper": "script-mapper"}],
        },
        {"clientId": "mobile-app", "serviceAccountsEnabled": True},
        {"clientId": "!!!", "name": "\u202e"},
    ]
    roles: Any = {"client": {"Mobile App": [5, {"name": "A b"}, {"name": "a-b"}, {"name": "c", "description": "${role_c}"}]}}
    groups: list[Any] = [5, {"name": ""}, {"name": "y" * 200}, deep, *({"name": f"group {number}"} for number in range(600))]
    text = "\n".join(document("acme", foreign_parts(RealmParts(clients, roles, groups))))
    for line in (
        '      "mobile-app":\n        # Mobile App at Keycloak\n        # It was switched off at Keycloak.',
        '        # Mapper "script-mapper": it is code, which nothing here runs.',
        '        service_type: "mobile"\n        redirect_uris:\n          - "com.example.app:/callback"',
        "        # post_logout_redirect_uris: http://elsewhere.example/bye is left out: http is only for localhost",
        '        roles:\n          "a-b":\n            name: "A b"\n          "c":\n            name: "c"',
        '      "mobile-app-2":\n        # mobile-app at Keycloak\n        # To keep its client id: ',
        'postern service client-id --organization acme --service mobile-app-2 --keep mobile-app\n        name: "mobile-app"',
        '      "service":\n        # !!! at Keycloak\n        # Its client id is a new one: !!! cannot be kept, since',
        "is left out: its name is too long",
        "further groups are left out: an organization has at most 500 teams",
    ):
        assert line in text, line
    assert "ftp://x" not in text
    assert "\n".join(document("acme", foreign_parts(RealmParts([], None, [])))).endswith("    services:")

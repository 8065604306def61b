"""Records of Firebase, Cognito, Zitadel and authentik: what is taken of each, and what stays behind with which note."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from core.domain.identity.foreign_hashes.sources import firebase_form
from core.domain.platform.imports import authentik, cognito, firebase, zitadel
from core.domain.platform.imports.records import ImportedIdentity, ImportedPerson, LeftOut
from tests.foreign_hashes import FIREBASE, FIREBASE_HASH, FIREBASE_SALT

NO_HASHES = "password: Cognito gives out no hashes; a new one has to be chosen"
NONE_IN_EXPORT = "password: the export of authentik has none; a new one has to be chosen"
DJANGO = "pbkdf2_sha256$600000$salt$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
NAMES = zitadel.ZitadelNames(providers={}, projects={})
GOOGLE = "https://accounts.google.com"


def at_firebase(**more: Any) -> ImportedPerson:
    return firebase.person({"localId": "1", "email": "ada@example.org", **more}, "here", firebase_form(FIREBASE))


def at_cognito(*attributes: tuple[str, str], **more: Any) -> ImportedPerson:
    told = [{"Name": name, "Value": value} for name, value in (("email", "ada@example.org"), *attributes)]
    return cognito.person({"Username": "ada", "Attributes": told, "Enabled": True, **more}, "here")


def at_zitadel(*told: zitadel.EntryBeside, names: zitadel.ZitadelNames = NAMES, **more: Any) -> ImportedPerson:
    content: Any = {"userId": "1", "user": {"userName": "ada", "email": {"email": "ada@example.org"}, **more}}
    return zitadel.person(content, "here", names, told, is_active=True)


def at_authentik(attrs: Mapping[str, Any], **more: Any) -> ImportedPerson:
    entry: Any = {"model": authentik.USER, "identifiers": {"pk": 5}, "attrs": {"email": "ada@example.org", **attrs}, **more}
    return authentik.person(entry, "here", lambda _key: "", lambda _key: False)


@pytest.mark.parametrize(
    ("more", "notes"),
    [
        ({"mfaInfo": [{"phoneInfo": "+43"}]}, ("second factor: there is no sign-in by telephone; it stays behind",)),
        ({"customAttributes": "{"}, ("customAttributes: is no object",)),
        ({"customAttributes": "[1]"}, ("customAttributes: is no object",)),
        ({"customAttributes": '{"role": "", "roles": "x"}'}, ("roles: is no list",)),
        (
            {"providerUserInfo": [{"providerId": "password"}, {"providerId": "google.com"}]},
            ("identity at google.com: its issuer is not known; it stays behind",),
        ),
        (
            {"passwordHash": "AAAA", "salt": "AAAA"},
            ("password: The hash was not made with this signer key: their lengths differ; a new one has to be chosen",),
        ),
    ],
)
def test_what_stays_behind_of_a_user_of_firebase(more: Mapping[str, Any], notes: tuple[str, ...]) -> None:
    made = at_firebase(**more)
    assert (made.notes, made.password, made.identities, made.roles) == (notes, None, (), ())


def test_firebase_keeps_out_whom_it_kept_out() -> None:
    assert [at_firebase(disabled=one).is_disabled for one in (True, "yes", False, None)] == [True, True, False, False]
    row = {"localId": "1", "email": "ada@example.org"}
    for word, verified, disabled in (("true", True, True), ("false", False, False), ("?", False, True), ("", False, False)):
        made = firebase.person_of_row({**row, "emailVerified": word, "disabled": word}, "here")
        assert (made.email_verified, made.is_disabled) == (verified, disabled), word


def test_the_claims_of_firebase_are_roles_and_fields() -> None:
    made = at_firebase(customAttributes='{"role": "auditor", "roles": ["editor", "auditor"], "level": 3}')
    assert (made.roles, made.fields) == (("auditor", "editor"), {"level": 3})


def test_the_parameters_of_the_project_read_its_hashes() -> None:
    hashed = {"passwordHash": FIREBASE_HASH, "salt": FIREBASE_SALT}
    assert at_firebase(**hashed).password is not None
    without = firebase.person({"localId": "1", **hashed}, "here")
    assert without.password is None
    assert "--hash firebase --hash-config" in without.notes[0]


@pytest.mark.parametrize(
    ("more", "notes"),
    [
        ({}, (NO_HASHES,)),
        ({"UserStatus": "EXTERNAL_PROVIDER"}, ()),
        ({"UserMFASettingList": ["SOFTWARE_TOKEN_MFA"]}, (NO_HASHES, "second factor: Cognito does not export it; it stays behind")),
        ({"MFAOptions": [{"DeliveryMedium": "SMS"}]}, (NO_HASHES, "second factor: Cognito does not export it; it stays behind")),
    ],
)
def test_what_stays_behind_of_a_user_of_cognito(more: Mapping[str, Any], notes: tuple[str, ...]) -> None:
    assert at_cognito(**more).notes == notes


@pytest.mark.parametrize(
    ("identities", "found", "note"),
    [
        (
            '[{"providerType": "Google", "providerName": "Google", "userId": "108"}]',
            (ImportedIdentity(GOOGLE, "108", "ada@example.org"),),
            "",
        ),
        (
            '[{"providerType": "SAML", "providerName": "Corp", "userId": "a"}]',
            (),
            "identity at Corp: its issuer is not known; it stays behind",
        ),
        ('[{"providerType": "Google"}]', (), "identity at a provider: its issuer is not known; it stays behind"),
        ("[5]", (), "identities: an entry is no object"),
        ("{", (), "identities: is no list"),
    ],
)
def test_identities_of_cognito(identities: str, found: tuple[ImportedIdentity, ...], note: str) -> None:
    made = at_cognito(("identities", identities), UserStatus="EXTERNAL_PROVIDER")
    assert (made.identities, made.notes) == (found, (note,) if note else ())


def test_cognito_keeps_out_whom_it_kept_out() -> None:
    assert not at_cognito().is_disabled
    for more in ({"Enabled": False}, {"Enabled": "true"}, {"UserStatus": "COMPROMISED"}, {"UserStatus": "ARCHIVED"}):
        assert at_cognito(**more).is_disabled, more
    missing = cognito.person({"Username": "ada"}, "here")
    assert (missing.is_disabled, missing.notes[-1]) == (True, "Enabled: is missing, and counts as no")
    row = {"cognito:username": "ada", "email": "ada@example.org"}
    assert not cognito.person_of_row(row, "here").is_disabled
    assert [cognito.person_of_row({**row, "Enabled": one}, "here").is_disabled for one in ("true", "FALSE", "")] == [False, True, True]


@pytest.mark.parametrize(
    ("name", "attributes", "status", "username"),
    [
        ("ada", (), "CONFIRMED", "ada"),
        ("ada", (("preferred_username", "countess"),), "CONFIRMED", "countess"),
        ("7-1", (("sub", "7-1"),), "CONFIRMED", ""),
        ("ada@example.org", (), "CONFIRMED", ""),
        ("Google_108", (), "EXTERNAL_PROVIDER", ""),
    ],
)
def test_user_names_of_cognito(name: str, attributes: tuple[tuple[str, str], ...], status: str, username: str) -> None:
    made = at_cognito(*attributes, Username=name, UserStatus=status)
    assert (made.id, made.username) == (name, username)


def test_a_row_of_cognito_without_a_name_is_known_by_its_address() -> None:
    assert cognito.person_of_row({"cognito:username": "", "email": "Ada@example.org"}, "here").id == "ada@example.org"


def test_a_page_of_cognito_says_whether_another_one_follows() -> None:
    assert cognito.is_page({"Users": []})
    others: list[Any] = [{"Users": 5}, [], {}]
    assert not any(map(cognito.is_page, others))
    assert all(map(cognito.is_last, ({}, {"NextToken": None})))
    assert not any(map(cognito.is_last, ({"NextToken": "x"}, {"PaginationToken": "x"})))


@pytest.mark.parametrize(
    ("more", "notes"),
    [
        ({"password": "plain text"}, ("password: is no hash; a new one has to be chosen",)),
        (
            {"hashedPassword": {"value": "$2b$10$yH7DQo9jnJ6RZocJWriBFekkrgW6GqPxwYOpY7BPLPFst3iRnUnA."}, "passwordChangeRequired": True},
            ("password: Zitadel would ask for another one; a new one has to be chosen",),
        ),
        (
            {"hashedPassword": {"value": "$1$abc$"}},
            ("password: The hash is $1$, md5-crypt, which is not read; a new one has to be chosen",),
        ),
        ({"otpCode": "testotp"}, ("second factor: the secret is no base32 of 10 to 80 bytes",)),
    ],
)
def test_what_stays_behind_of_a_person_of_zitadel(more: Mapping[str, Any], notes: tuple[str, ...]) -> None:
    made = at_zitadel(**more)
    assert (made.notes, made.password, made.totp) == (notes, None, None)


def test_what_zitadel_tells_beside_its_people() -> None:
    told = [
        zitadel.EntryBeside("userLinks", {"idpId": "2", "idpName": "Corp", "providedUserId": "u"}),
        zitadel.EntryBeside("userLinks", {"idpId": "1", "providedUserId": "u", "providedUserName": "ada"}),
        zitadel.EntryBeside("userGrants", {"projectId": "3", "roleKeys": ["editor"]}),
        zitadel.EntryBeside("userMetadata", {"key": "photo", "value": "/w=="}),
        zitadel.EntryBeside("userMetadata", {"key": "team", "value": "eA=="}),
    ]
    provider = zitadel.provider({"idpId": "1", "idp": {"issuer": "https://corp.example", "clientId": "z"}})
    assert provider is not None
    made = at_zitadel(*told, names=zitadel.ZitadelNames(providers=dict([provider]), projects={}))
    assert made.identities == (ImportedIdentity("https://corp.example", "u", "", "z"),)
    assert (made.service_roles, made.fields) == ((), {"team": "x"})
    assert made.notes == (
        "identity at Corp: its issuer is not known; it stays behind",
        "a role: its project is no part of the export; it stays behind",
        "photo: is no text",
    )


@pytest.mark.parametrize("read", [zitadel.provider, zitadel.project, zitadel.state, authentik.group])
def test_an_entry_of_another_shape_is_nothing(read: Callable[[Any], Any]) -> None:
    assert [read(one) for one in (5, {}, {"idpId": "1"}, {"projectId": "1"}, {"identifiers": {"pk": True}, "attrs": {"name": "x"}})] == [
        None
    ] * 5


def test_who_may_sign_in_at_zitadel() -> None:
    words = ("ACTIVE", "INITIAL", "INACTIVE", "LOCKED", "DELETED")
    assert [zitadel.state({"id": "1", "state": f"USER_STATE_{word}"}) for word in words] == [
        ("1", word in {"ACTIVE", "INITIAL"}) for word in words
    ]
    assert (
        zitadel.owner_of("userLinks", 5) == zitadel.owner_of("userLinks", {"userId": 5}) == zitadel.owner_of("apps", {"userId": "1"}) == ""
    )
    unknown = zitadel.person({"userId": "1", "user": {}}, "here", NAMES, (), is_active=None)
    assert (unknown.is_disabled, unknown.notes) == (
        True,
        ("state: the list of --states does not name the person, who counts as deactivated",),
    )


@pytest.mark.parametrize(
    ("attrs", "note", "is_taken"),
    [
        ({}, NONE_IN_EXPORT, False),
        ({"password": "plain text"}, "password: is no hash; a new one has to be chosen", False),
        ({"password_hash": DJANGO}, "", True),
        ({"password": DJANGO}, "", True),
    ],
)
def test_the_password_of_a_person_of_authentik(attrs: Mapping[str, Any], note: str, is_taken: bool) -> None:
    made = at_authentik(attrs)
    assert (made.notes, made.password is not None) == ((note,) if note else (), is_taken)
    assert "plain" not in str(made.notes)


def test_authentik_leaves_out_what_is_false() -> None:
    assert [at_authentik(one).is_disabled for one in ({}, {"is_active": True}, {"is_active": False})] == [True, False, True]
    assert not at_authentik({"is_active": True}).email_verified


def test_devices_of_authentik_belong_to_people() -> None:
    device: Any = {"model": "authentik_stages_authenticator_totp.totpdevice", "attrs": {"user": 5}}
    assert [authentik.owner_of_device(device), authentik.owner_of_device({"model": authentik.USER}), authentik.owner_of_device(5)] == [
        "5",
        "",
        "",
    ]


@pytest.mark.parametrize(
    ("read", "content", "reason"),
    [
        (lambda one: firebase.person(one, ""), [], "the entry is no object"),
        (lambda one: firebase.person(one, ""), {}, "localId: is missing, or no text"),
        (lambda one: cognito.person(one, ""), "x", "the entry is no object"),
        (lambda one: cognito.person_of_row(one, ""), {"cognito:username": " "}, "Username: is missing, or no text"),
        (lambda one: zitadel.person(one, "", NAMES, (), is_active=True), 5, "the entry is no object"),
        (lambda one: zitadel.person(one, "", NAMES, (), is_active=True), {"user": {}}, "userId: is missing, or no text"),
        (lambda one: authentik.person(one, "", str, bool), 5, "the entry is no object"),
        (lambda one: authentik.person(one, "", str, bool), {}, "pk: is missing, or no text"),
        (lambda one: authentik.person(one, "", str, bool), {"state": "absent", "attrs": {"username": "x"}}, "no such person"),
        (
            lambda one: authentik.person(one, "", str, bool),
            {"identifiers": {"pk": 7}, "attrs": {"type": "service_account"}},
            "a service account",
        ),
    ],
)
def test_records_of_these_systems_that_are_nobody(read: Any, content: Any, reason: str) -> None:
    with pytest.raises(LeftOut, match=reason):
        read(content)

"""Decisions about people of other systems that need no database."""

from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import pytest

from core.domain.errors import BadRequest
from core.domain.identifiers import OrganizationId, ProfileFieldId, UserId
from core.domain.mail import Email
from core.domain.platform.imports.decisions import (
    Deciding,
    Decision,
    Existing,
    Facts,
    ImportDestination,
    ImportedBefore,
    ImportRules,
    KnownProvider,
    Marks,
    MetBefore,
)
from core.domain.platform.imports.events import heard
from core.domain.platform.imports.records import ImportedIdentity, ImportedPasskey, ImportedPerson
from core.domain.tenancy.profile_fields import FieldKind, FieldRule, FieldWriter, KeptValues, ProfileField
from core.domain.tenancy.roles import built_in
from core.frozen import replace

NOON: Final = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
ACME: Final = OrganizationId(UUID(int=1))
ADA: Final = UserId(UUID(int=2))
MEMBER = built_in("member")
assert MEMBER is not None
FIELDS: Final = [
    ProfileField(
        id=ProfileFieldId(UUID(int=10 + number)),
        organization=None,
        key=f"field{number}",
        label="Field",
        kind=FieldKind.TEXT,
        rule=FieldRule(max_length=1000),
        written_by=frozenset({FieldWriter.ADMINISTRATOR if number else FieldWriter.PERSON}),
        position=0,
        created_at=NOON,
        updated_at=NOON,
    )
    for number in range(30)
]
GOOGLE: Final = KnownProvider("websuite", "https://accounts.google.com", "", is_shared=True)
THEIRS: Final = KnownProvider(str(UUID(int=3)), "https://login.acme.example", "postern", is_shared=False)
TO: Final = ImportDestination(
    roles={"member": MEMBER},
    teams={},
    closed_teams=frozenset(),
    service_roles={},
    providers=[GOOGLE, THEIRS],
    fields=KeptValues(FIELDS, {}),
    most_members=1,
)
INTO_ACME: Final = replace(TO, organization=ACME, slug="acme")
NOTHING: Final = Facts(before={}, accounts={}, users={}, usernames=frozenset(), identities=frozenset(), passkeys=frozenset(), members=0)
MARKS: Final = Marks(UserId(UUID(int=9)), b"person", b"username")
RULES: Final = ImportRules(trusts_verified=True, takes_usernames=True)


def decide(facts: Facts = NOTHING, to: ImportDestination = TO, met: MetBefore | None = None, **person: Any) -> Decision:
    deciding = Deciding(to=to, rules=RULES, facts=facts, met=met or MetBefore(), passkey_fault="")
    given = ImportedPerson(place="here", id="1", email="ada@example.org", email_verified=True, **person)
    return deciding.decide(given, Email("ada@example.org"), MARKS)


def passkey(credential: bytes) -> ImportedPasskey:
    return ImportedPasskey(credential_id=credential, public_key=b"key", sign_count=0, name="Key", aaguid=UUID(int=0), user_handle=b"1")


@pytest.mark.parametrize("known", [True, False])
def test_a_full_organization_lists_nobody_more(known: bool) -> None:
    existing = Existing(user=ADA)
    facts = replace(NOTHING, members=1, accounts={"ada@example.org": existing}, users={ADA: existing})
    if known:
        facts = replace(facts, before={b"person": ImportedBefore(ADA, is_new=True)})
    assert decide(facts, INTO_ACME).notes == ("the organization has reached its limit of 1 members",)
    assert decide(facts, replace(INTO_ACME, most_members=2)).outcome.value == "merged"


def test_a_user_name_that_does_not_fit_stays_behind() -> None:
    made = decide(username="admin")
    assert made.account is not None
    assert made.account.username is None
    assert "reserved" in made.notes[0]


def test_passkeys_that_somebody_has_and_too_many_stay_behind() -> None:
    facts = replace(NOTHING, passkeys=frozenset({b"taken"}))
    many = tuple(passkey(bytes([number])) for number in range(30))
    made = decide(facts, passkeys=(passkey(b""), passkey(b"x" * 2000), passkey(b"taken"), *many))
    assert made.account is not None
    assert len(made.account.passkeys) == 25
    assert made.notes == (
        "passkey: the credential is malformed",
        "passkey: an account has it already",
        "passkeys: nobody has more than 25",
    )


def test_an_identity_needs_the_issuer_and_where_it_is_an_organizations_own_the_client() -> None:
    made = decide(
        identities=(
            ImportedIdentity("https://accounts.google.com", "1"),
            ImportedIdentity("https://accounts.google.com/", "2"),
            ImportedIdentity("https://login.acme.example", "3"),
            ImportedIdentity("https://login.acme.example", "4", client_id="keycloak"),
            ImportedIdentity("https://login.acme.example", "5", client_id="postern"),
        )
    )
    assert made.account is not None
    assert [one.key for one in made.account.identities] == [
        ("websuite", "https://accounts.google.com", "1"),
        (THEIRS.key, "https://login.acme.example", "5"),
    ]
    assert made.notes == (
        "identity at https://accounts.google.com/: an account has one at each provider; the first counts",
        "identity at https://login.acme.example: no provider here has this issuer, or it has another client",
    )


def test_values_of_fields_follow_the_rules_of_their_fields() -> None:
    made = decide(fields={"field0": "x", "field1": "good", "field2": 5, "other": "x"})
    assert made.account is not None
    assert dict(made.account.values) == {FIELDS[1].id: "good"}
    assert made.notes == (
        "other: no field has this key",
        "field0: is nothing that the field takes from an administrator",
        "field2: is nothing that the field takes from an administrator",
    )
    crowded = decide(fields={f"field{number}": "x" * 1000 for number in range(1, 30)})
    assert crowded.account is not None
    assert crowded.account.values == {}
    assert "at most" in crowded.notes[0]


def test_nothing_is_told_of_somebody_who_comes_twice() -> None:
    met = MetBefore()
    assert [event.name for event in heard(decide(met=met), None)] == ["user.signup.success"]
    again = decide(met=met)
    assert (again.outcome.value, again.user) == ("known", None)
    assert list(heard(again, None)) == []


@pytest.mark.parametrize(("slug", "says"), [("owner", "makes nobody an owner"), ("pilot", "acme has no role pilot; its roles are member")])
def test_roles_that_an_import_cannot_give(slug: str, says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        INTO_ACME.role(slug)

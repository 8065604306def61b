"""Row 36: hostile files are a line each, and the rest goes on."""

import json
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.imports.documents import BrokenDocument, JsonDocument
from core.domain.platform.imports import auth0, keycloak
from core.domain.platform.imports import postern as own
from core.domain.platform.imports.clients import document
from core.domain.platform.imports.decisions import ImportRules
from core.domain.platform.imports.keycloak_clients import RealmParts, foreign_parts
from core.domain.platform.imports.records import ImportedPerson, LeftOut
from core.domain.platform.imports.reports import Outcome
from entrypoints.bootstrap import Postern
from tests.adapters.imports.importing import SAMPLES, imported, people_file, planned
from tests.http import conftest as http
from tests.http.people import People
from tests.http.tenants import Tenants

database_url, postern, people = http.database_url, http.postern, http.people

GOOD = {"id": "good", "email": "good@example.org"}
HOSTILE: list[Any] = [
    "[1, 2]",
    "null",
    '"text"',
    "9" * 10_000,
    "[" * 100_000,
    '{"id": "nan", "email": Infinity}',
    {"email": "nobody@example.org"},
    {"id": {"a": 1}, "email": "nobody@example.org"},
    {"id": "x" * 300, "email": "nobody@example.org"},
    {"id": "1"},
    {"id": "2", "email": 5},
    {"id": "3", "email": ["a@example.org"]},
    {"id": "4", "email": "a@example.org\nBcc: b@example.org"},
    {"id": "5", "email": "a\x00@example.org"},
    {"id": "6", "email": "x" * 1_000_000 + "@example.org"},
    {"id": "7", "email": "no address"},
    {"id": "8", "email": "\ud800@example.org"},
]
ODD: list[dict[str, Any]] = [
    {"name": "x" * 1_000_000},
    {"name": "NUL \x00 and \u202e back"},
    {"name": {"first": "Ada"}, "given_name": 7, "locale": [], "zoneinfo": "Mars/Olympus"},
    {"is_platform_owner": True, "role": "owner", "roles": ["owner", 5], "origin_org_id": "x", "deactivated_at": None},
    {"password_hash": "$2b$31$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy"},
    {"password_hash": "$argon2id$v=19$m=2147483648,t=2147483648,p=1$c2FsdHNhbHQ$" + "A" * 43},
    {"password_hash": "$pbkdf2-sha256$i=4294967295$c2FsdA$" + "A" * 43},
    {"password_hash": "hunter2"},
    {"password_hash": ["$2b$10$x"]},
    {"totp_secret": "A" * 1_000_000},
    {"totp_secret": "not base32!"},
    {"passkeys": [{"credential_id": "A" * 10_000, "public_key": "!"}] * 200},
    {"passkeys": "all"},
    {"identities": [{"issuer": "https://evil.example", "subject": "1"}] * 500},
    {"teams": ["x" * 5000] * 500, "service_roles": {"a": "b", "c": [1]}},
    {"fields": {f"key{number}": "x" for number in range(10_000)}},
    {"fields": [1]},
    {"=cmd|' /C calc'!A0": "1"},
]


def odd_people() -> Iterator[dict[str, Any]]:
    for number, more in enumerate(ODD):
        yield {"id": f"odd{number}", "email": f"odd{number}@example.org", "email_verified": True, **more}


async def test_every_hostile_record_is_one_line_and_the_rest_goes_on(postern: Postern, people: People, tmp_path: Path) -> None:
    file = people_file(tmp_path / "people.ndjson", [*HOSTILE, *odd_people(), GOOD])
    plan = await planned(postern, "postern", file)
    done = await imported(postern, "postern", file)
    assert [(one.outcome, one.notes) for one in done.lines] == [(one.outcome, one.notes) for one in plan.lines]
    assert len(done.lines) == len(HOSTILE) + len(ODD) + 1
    assert [one.outcome for one in done.lines[: len(HOSTILE)]] == [Outcome.LEFT_OUT] * len(HOSTILE)
    assert [one.outcome for one in done.lines[len(HOSTILE) :]] == [Outcome.TAKEN] * (len(ODD) + 1)
    for line in done.lines:
        told = json.dumps([line.id, line.email, *line.notes], ensure_ascii=False)
        assert len(told) < 8000, told[:200]
        assert "hunter2" not in told
        assert all(letter.isprintable() for letter in told), told[:200]
    assert people.rows("select from users where is_platform_owner or password_hash is not null or origin_org_id is not null") == []
    assert people.rows("select from mfa_secrets union all select from passkeys union all select from identities") == []


async def test_a_strange_user_of_a_realm_does_not_hide_the_others(postern: Postern, tmp_path: Path) -> None:
    realm = json.loads((SAMPLES / "acme-realm.json").read_text())
    ada, grace, *_ = realm["users"]
    strange = ["[" * 5000 + "]" * 5000, '"text"', "9" * 10_000, '{"id": "\\ud800", "email": 1}']
    realm["users"] = ["@@"]
    file = tmp_path / "realm.json"
    file.write_text(json.dumps(realm).replace('["@@"]', f"[{json.dumps(ada)}, {', '.join(strange)}, {json.dumps(grace)}]"))
    done = await imported(postern, "keycloak", file)
    assert [one.outcome.value for one in done.lines] == ["taken", *["left out"] * 4, "taken"]


async def test_other_tenants_are_out_of_reach(postern: Postern, people: People, tmp_path: Path) -> None:
    tenants = Tenants(postern, people)
    tenants.add("acme")
    globex = tenants.add("globex")
    people.change(
        "insert into upstream_providers"
        " (id, org_id, name, issuer, client_id, sealed_client_secret, scopes, enabled, created_at, updated_at)"
        " values (gen_random_uuid(), %s, 'Theirs', 'https://theirs.example', 'client', '', '{}', true, now(), now())",
        globex.id,
    )
    person = {
        **GOOD,
        "email_verified": True,
        "organization": "globex",
        "memberships": ["globex"],
        "identities": [{"issuer": "https://theirs.example", "subject": "1", "client_id": "client"}],
    }
    rules = ImportRules(organization="acme", trusts_verified=True)
    done = await imported(postern, "postern", people_file(tmp_path / "people.ndjson", [person]), rules=rules)
    assert [row["slug"] for row in people.rows("select slug from memberships join organizations on organizations.id = org_id")] == ["acme"]
    assert people.rows("select * from identities") == []
    assert "organization: is not a part of this form" in done.notes("good@example.org")


async def test_another_persons_ways_in_are_not_taken(postern: Postern, people: People, tmp_path: Path) -> None:
    """Neither an identity, nor a user name, nor a passkey that an account has."""
    bob = people.add("bob@example.org")
    people.change(
        "insert into identities (id, user_id, provider, issuer, subject, email, linked_at)"
        " values (gen_random_uuid(), %s, 'websuite', 'https://accounts.google.com', '7', '', now())",
        bob.user,
    )
    taken = [{"id": "1", "email": "first@example.org", "username": "first", "email_verified": True}]
    rules = ImportRules(trusts_verified=True, takes_usernames=True)
    await imported(postern, "postern", people_file(tmp_path / "first.ndjson", taken), rules=rules)
    person = {
        **GOOD,
        "email_verified": True,
        "username": "first",
        "identities": [{"issuer": "https://accounts.google.com/", "subject": "7"}],
    }
    done = await imported(postern, "postern", people_file(tmp_path / "second.ndjson", [person]), rules=rules)
    assert done.notes("good@example.org") == (
        "username: it is taken, or was once",
        "identity at https://accounts.google.com/: it is connected to another account",
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
WORDS = """
    id user_id email username emailVerified email_verified enabled disabled blocked firstName attributes credentials type secretData
    credentialData federatedIdentities identityProvider userId groups realmRoles clientRoles requiredActions identities provider
    app_metadata user_metadata mfa_factors totp secret multifactor password_hash custom_password_hash passkeys fields teams roles
"""
NAMES = st.sampled_from(WORDS.split())
REALM = keycloak.KeycloakRealm(name="acme", brokers={"google": keycloak.Broker("https://accounts.google.com", "")})


@settings(max_examples=100)
@given(st.dictionaries(NAMES, JSON | st.lists(st.dictionaries(NAMES, JSON, max_size=5), max_size=3), max_size=8))
def test_whatever_types_a_record_has_it_is_read_or_left_out(content: Any) -> None:
    content = {"id": "1", "user_id": "1", **content}
    readers: list[Callable[[], ImportedPerson]] = [
        lambda: keycloak.person(content, "here", REALM),
        lambda: auth0.person(content, "here", content),
        lambda: own.person(content, "here"),
    ]
    for read in readers:
        with suppress(LeftOut):
            assert all(len(note) <= 201 and note.isprintable() for note in read().notes)
    auth0.hash_key(content)
    keycloak.broker(content)
    list(keycloak.members(content))
    list(document("acme", foreign_parts(RealmParts([content], content, [content]))))


@pytest.mark.parametrize("text", ["", "5", "{", "[", '{"a" 1}', "[1 2]", '{"a": 1} x', "[1,", '["', '{"a": [1, 2', "\x00", "[1]]"])
def test_what_is_no_document_ends_with_a_sentence(text: str) -> None:
    parts = iter([text])
    with pytest.raises(BrokenDocument):
        list(JsonDocument(lambda _most: next(parts, "")).values())


def test_a_huge_value_stands_in_memory_only_in_part() -> None:
    """Of sixty million letters, a few million at a time."""
    parts = iter(['[1, "', *["x" * 1_000_000] * 60, '", 2, {"a": [', *["[1], "] * 10, "3]}]"])
    tracemalloc.start()
    try:
        values = list(JsonDocument(lambda _most: next(parts, ""), largest=1 << 20).values())
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [one.content for one in values] == [1, None, 2, {"a": [*[[1]] * 10, 3]}]
    assert values[1].fault
    assert most < 20_000_000

"""Hashes that do not name their form, and what a report says of those that nobody reads."""

import pytest

from core.domain.errors import BadRequest
from core.domain.identity.foreign_hashes.hashes import HashKind, HashRefused
from core.domain.identity.foreign_hashes.sources import firebase_form, firebase_hash, firebase_settings, hash_form
from core.domain.identity.foreign_hashes.texts import foreign_hash
from tests.foreign_hashes import FIREBASE, FIREBASE_HASH, FIREBASE_SALT, FIREBASE_SHOWN, FORMED, MADE, UNREAD

AS_JSON = (
    '{"algorithm": "SCRYPT", "signer_key": "jxspr8Ki0RYycVU8zykbdLGjFQ3McFUH0uiiTvC8pVMXAn210wjLNmdZJzxUECKbm0QsEmYUSDzZvpjeJ9WmXA==",'
    ' "salt_separator": "Bw==", "rounds": 8, "memory_cost": 14}'
)


def test_of_the_kinds_that_libraries_make_most_come_in() -> None:
    """Each with the library's own hash. MD5, plain SHA and crypts without a library are named, and stay out."""
    read = len(MADE) + len(FORMED) + 1  # Firebase
    assert (read, len(UNREAD)) == (49, 14)


@pytest.mark.parametrize("name", UNREAD)
def test_a_kind_that_is_not_read_is_named(name: str) -> None:
    text, mark = UNREAD[name]
    with pytest.raises(HashRefused) as refused:
        foreign_hash(text)
    assert mark in str(refused.value)
    assert text[len(mark) :] not in str(refused.value)


@pytest.mark.parametrize("text", ["hunter2", "correct horse battery staple", "secret:word", "$ecret$", "{braces}", "pa.ss"])
def test_nothing_of_a_password_is_told(text: str) -> None:
    with pytest.raises(HashRefused) as refused:
        foreign_hash(text)
    assert str(refused.value) == "The hash has no form that Postern knows, or is malformed"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("$argon2id$v=19$p=1,t=2,m=8192$c2FsdHNhbHQ$" + "A" * 43, HashKind.ARGON2ID),
        ("$argon2id$v=19$t=2,m=8192,p=1$c2FsdHNhbHQ$" + "A" * 43, HashKind.ARGON2ID),
    ],
)
def test_argon2_names_its_costs_in_any_order(text: str, kind: HashKind) -> None:
    read = foreign_hash(text)
    assert (read.kind, dict(read.parameters)) == (kind, {"v": 19, "m": 8192, "t": 2, "p": 1, "l": 32})


@pytest.mark.parametrize("costs", ["m=8,m=8,p=1", "m=8192,t=2", "m=8192,t=2,p=1,p=1", "m=8192,t=2,x=1", "m=8192,t=2,p=1,keyid=AA"])
def test_argon2_names_each_cost_once(costs: str) -> None:
    with pytest.raises(HashRefused, match="malformed"):
        foreign_hash(f"$argon2id$v=19${costs}$c2FsdHNhbHQ$" + "A" * 43)


@pytest.mark.parametrize(
    "text",
    [
        MADE["npm scrypt-kdf"][:-4] + "AAA",
        "c2NyeXB0A" + MADE["npm scrypt-kdf"][9:60] + "B" + MADE["npm scrypt-kdf"][61:],
        "c2NyeXB0AAAA",
        "c2NyeXB0B" + MADE["npm scrypt-kdf"][9:],
    ],
)
def test_a_header_with_another_checksum_is_malformed(text: str) -> None:
    with pytest.raises(HashRefused, match=r"malformed|in base64|no form"):
        foreign_hash(text)


def test_a_text_that_names_its_form_is_read_as_that_one() -> None:
    form = hash_form("better-auth")
    assert form.hash_of(MADE["bcrypt 2b"], "") == foreign_hash(MADE["bcrypt 2b"])
    with pytest.raises(HashRefused, match="There is no password"):
        form.hash_of("!unusable", "")


def test_a_salt_of_its_own_stands_for_the_one_in_the_text() -> None:
    name, text, _ = FORMED["npm better-auth"]
    salt, _, digest = text.partition(":")
    assert hash_form(name).hash_of(digest, salt) == hash_form(name).hash_of(text, "")
    with pytest.raises(HashRefused, match="better-auth: it has no salt"):
        hash_form(name).hash_of(digest, "")
    with pytest.raises(HashRefused, match="hexadecimal"):
        hash_form(name).hash_of("zz", salt)


@pytest.mark.parametrize("name", ["node-pbkdf2", "node-pbkdf2-bytes:i=1000,sha=256"])
def test_pbkdf2_of_node_has_its_salt_as_a_text_or_as_bytes(name: str) -> None:
    read = hash_form(name).hash_of("ab" * 32, "cd" * 16)
    assert read.salt == (b"cd" * 16 if name == "node-pbkdf2" else b"\xcd" * 16)
    assert read.parameters["i"] == (100_000 if name == "node-pbkdf2" else 1000)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("md5", "must be one of better-auth, "),
        ("firebase:rounds=8", "must be one of"),
        ("node-scrypt:", "after the colon stand n, r, p"),
        ("node-scrypt:n=x", "each once and with a number"),
        ("node-scrypt:n=2,n=4", "each once"),
        ("node-scrypt:i=2", "after the colon stand n, r, p"),
        ("passport-local-mongoose:n=2", "after the colon stand i, sha"),
    ],
)
def test_a_form_that_nobody_knows_is_refused(asked: str, says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        hash_form(asked)


@pytest.mark.parametrize("asked", ["node-scrypt:n=16383", "node-scrypt:n=2147483648", "passport-local-mongoose:sha=1024"])
def test_parameters_out_of_bounds_are_told_of_each_hash(asked: str) -> None:
    with pytest.raises(HashRefused):
        hash_form(asked).hash_of("ab" * 32, "cd" * 16)


@pytest.mark.parametrize("text", [FIREBASE_SHOWN, AS_JSON])
def test_firebases_parameters_are_read_as_they_are_shown(text: str) -> None:
    assert firebase_settings(text) == FIREBASE
    assert firebase_form(FIREBASE).hash_of(FIREBASE_HASH, FIREBASE_SALT) == firebase_hash(FIREBASE_HASH, FIREBASE_SALT, FIREBASE)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "lacks signer_key, salt_separator, rounds, mem_cost"),
        (FIREBASE_SHOWN.replace("rounds", "turns"), "lacks rounds"),
        (FIREBASE_SHOWN.replace("mem_cost: 14", "mem_cost: many"), "must be numbers"),
        (FIREBASE_SHOWN.replace("rounds: 8", "rounds: 80000"), "must be numbers"),
    ],
)
def test_parameters_that_lack_something_are_refused(text: str, says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        firebase_settings(text)

"""Hashes of other systems: what is read, and what is refused in one line before anybody computes anything."""

from base64 import b64encode
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.identity.foreign_hashes.hashes import BOUNDS, ForeignHash, HashKind, HashRefused, decoy_of, is_foreign, read_stored
from core.domain.identity.foreign_hashes.sources import auth0_hash, firebase_hash, keycloak_hash
from core.domain.identity.foreign_hashes.texts import foreign_hash
from core.frozen import replace
from tests.foreign_hashes import FIREBASE, FIREBASE_HASH, FIREBASE_SALT, KEYCLOAK, MADE

SALT, DIGEST = b64encode(b"s" * 16).decode(), b64encode(b"d" * 32).decode()
BCRYPT = "abcdefghijklmnopqrstuuE5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"
HUGE = 2**31
OURS = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0c2FsdA$ZGRkZGRkZGRkZGRkZGRkZGRkZGRkZGRkZGRkZGRkZGQ"


@pytest.mark.parametrize("name", MADE)
def test_what_is_stored_is_read_again(name: str) -> None:
    read = foreign_hash(MADE[name])
    assert is_foreign(read.stored())
    assert read_stored(read.stored()) == read
    wrapped = replace(read, digest=None, wrapping=OURS)
    assert read_stored(wrapped.stored()) == wrapped
    assert read.digest is not None
    assert decoy_of(read.shape) == replace(read, salt=bytes(_salt(read)), digest=bytes(len(read.digest)))


def _salt(read: ForeignHash) -> int:
    least, most = BOUNDS[read.kind].salt
    return min(max(16, least), most)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("x" * 1_000_000, "more than 2048 characters"),
        ("hunter2", "no form"),
        ("$2b$12$" + BCRYPT + "\0", "printable ASCII"),
        ("$2b$12$\n" + BCRYPT, "printable ASCII"),
        ("pbkdf2_sha256$1000$sälz$" + DIGEST, "printable ASCII"),
        ("pbkdf2_sha256$\u0661000$salt$" + DIGEST, "printable ASCII"),
        ("$2x$12$" + BCRYPT, "no form"),
        ("$2b$15$" + BCRYPT, "15 as its cost; Postern checks 4 to 14"),
        ("$2b$31$" + BCRYPT, "31 as its cost"),
        ("$2b$03$" + BCRYPT, "3 as its cost"),
        ("$2b$12$" + BCRYPT[:-1], "no form"),
        (f"pbkdf2_sha256${HUGE}$salt${DIGEST}", "2147483648 iterations; Postern checks 1 to 2000000"),
        (f"pbkdf2_sha256$0$salt${DIGEST}", "0 iterations"),
        # The letter before the salt is the logarithm of the cost: I is 20.
        ("$P$ISTG2mH.eQJI8LCK.n.vhv4cCFpk09.", "20 as the logarithm of its cost; Postern checks 7 to 19"),
        ("$p5k2$1000$salt$AAAA", "is $p5k2$"),
        ("grub.pbkdf2.sha512.10000.AA.BB", "is grub., PBKDF2"),
        ("{FSHP1|16|4096}AAAA", "is {FSHP}"),
        (f"pbkdf2_sha256$-1$salt${DIGEST}", "no form"),
        (f"pbkdf2_sha256$1000$${DIGEST}", "0 bytes of salt"),
        (f"pbkdf2_sha256$1000${'s' * 257}${DIGEST}", "257 bytes of salt"),
        ("pbkdf2_sha256$1000$salt$AAAA", "3 bytes of digest"),
        ("pbkdf2_sha256$1000$salt$AAAAA", "not in base64"),
        (f"pbkdf2_md5$1000$salt${DIGEST}", "no form"),
        ("$pbkdf2-sha256$1000$AAAAA$AAAA", "not in base64"),
        ("$pbkdf2-sha256$1000$AAAA$AAAAA", "not in base64"),
        (f"$pbkdf2-sha512$i={HUGE},l=32${SALT}${DIGEST}", "2147483648 iterations"),
        (f"$scrypt$ln=31,r=8,p=1${SALT}${DIGEST}", "31 as the logarithm of its cost"),
        (f"$scrypt$ln=4000000000,r=8,p=1${SALT}${DIGEST}", "4000000000 as the logarithm"),
        (f"$scrypt$ln=18,r=8,p=1${SALT}${DIGEST}", "262144 KiB of memory; Postern checks at most 131072"),
        (f"$scrypt$ln=17,r=8,p=4${SALT}${DIGEST}", "4194304 blocks"),
        (f"$scrypt$ln=16,r=1,p=1${SALT}${DIGEST}", "parameters that scrypt does not have"),
        (f"scrypt${HUGE}$salt$8$1${DIGEST}", "31 as the logarithm"),
        (f"scrypt$16383$salt$8$1${DIGEST}", "no power of two"),
        (f"$argon2id$v=19$m={HUGE},t=1,p=1${SALT}${DIGEST}", "2147483648 KiB of memory"),
        (f"$argon2i$v=19$m=4096,t={HUGE},p=1${SALT}${DIGEST}", "2147483648 passes"),
        (f"$argon2d$v=19$m=131072,t=100,p=1${SALT}${DIGEST}", "13107200 KiB in all passes"),
        (f"$argon2id$v=18$m=4096,t=1,p=1${SALT}${DIGEST}", "parameters that Argon2 does not have"),
        (f"$argon2id$v=19$m=8,t=1,p=64${SALT}${DIGEST}", "parameters that Argon2 does not have"),
        (f"$argon2x$v=19$m=4096,t=1,p=1${SALT}${DIGEST}", "no form"),
        (f"$6$rounds={HUGE}$salt$" + "a" * 86, "too much"),
        (f"$6$rounds={HUGE}$salt$" + "a" * 85 + ".", "2147483648 iterations"),
        ("$6$$" + "a" * 85 + ".", "0 bytes of salt"),
        ("$6$" + "s" * 17 + "$" + "a" * 85 + ".", "no form"),
        ("{SSHA}" + b64encode(b"d" * 20).decode(), "0 bytes of salt"),
        ("{SHA}" + b64encode(b"d" * 20).decode(), "{SHA}"),
        ("{SSHA}AAAA", "0 bytes of salt"),
        ("{SSHA256}" + b64encode(b"d" * 31).decode(), "0 bytes of salt"),
        (b64encode(b"\1" + b"\0\0\0\1" + b"\x80\0\0\0" + b"\0\0\0\x10" + b"s" * 16 + b"d" * 32).decode(), "2147483648 iterations"),
        (b64encode(b"\1" + b"\0\0\0\1" + b"\0\0\1\0" + b"\xff\xff\xff\xff" + b"s" * 16).decode(), "bytes of"),
        (b64encode(b"\1" + b"\0\0\0\7" + b"\0\0\1\0" + b"\0\0\0\x10" + b"s" * 16 + b"d" * 32).decode(), "SHA-1, SHA-256 and SHA-512 alone"),
        (b64encode(b"\0" * 20).decode(), "no form"),
    ],
)
def test_a_hostile_hash_is_refused_in_one_line(text: str, says: str) -> None:
    with pytest.raises(HashRefused) as refused:
        foreign_hash(text)
    line = str(refused.value)
    assert says in line
    assert "\n" not in line
    assert len(line) < 150
    assert DIGEST not in line


@pytest.mark.parametrize(
    "read",
    [
        lambda: keycloak_hash(None, {}),
        lambda: keycloak_hash({"algorithm": "pbkdf2-sha256", "hashIterations": True}, KEYCLOAK[0][1]),
        lambda: keycloak_hash({"algorithm": "pbkdf2-sha256", "hashIterations": 10**400}, KEYCLOAK[0][1]),
        lambda: keycloak_hash({"algorithm": "pbkdf2-sha256", "hashIterations": "9" * 5000}, KEYCLOAK[0][1]),
        lambda: keycloak_hash({"algorithm": "md5", "hashIterations": 1}, KEYCLOAK[0][1]),
        lambda: keycloak_hash({"algorithm": "argon2", "hashIterations": 1, "additionalParameters": []}, KEYCLOAK[2][1]),
        lambda: keycloak_hash({"algorithm": "argon2", "hashIterations": 1, "additionalParameters": {"type": "id"}}, KEYCLOAK[2][1]),
        lambda: keycloak_hash(KEYCLOAK[0][0], {"value": 7, "salt": SALT}),
        lambda: keycloak_hash(KEYCLOAK[0][0], {"value": DIGEST, "salt": ""}),
        lambda: keycloak_hash(KEYCLOAK[0][0], {"value": "ü" * 50, "salt": SALT}),
        lambda: firebase_hash(FIREBASE_HASH, "", FIREBASE),
        lambda: firebase_hash(FIREBASE_HASH[:-4], FIREBASE_SALT, FIREBASE),
        lambda: firebase_hash(FIREBASE_HASH, FIREBASE_SALT, replace(FIREBASE, memory_cost=HUGE)),
        lambda: firebase_hash(FIREBASE_HASH, FIREBASE_SALT, replace(FIREBASE, rounds=HUGE)),
        lambda: firebase_hash("", FIREBASE_SALT, replace(FIREBASE, signer_key="")),
        lambda: auth0_hash(7),
        lambda: auth0_hash({"algorithm": "md5", "hash": {"value": "00" * 16, "encoding": "hex"}}),
        lambda: auth0_hash({"algorithm": "scrypt", "cost": HUGE, "hash": {"value": DIGEST, "encoding": "base64"}, "salt": {"value": "s"}}),
        lambda: auth0_hash({"algorithm": "scrypt", "hash": {"value": "zz", "encoding": "hex"}, "salt": {"value": "s"}}),
        lambda: auth0_hash({"algorithm": "scrypt", "hash": {"value": "x", "encoding": "rot13"}, "salt": {"value": "s"}}),
    ],
)
def test_a_malformed_credential_is_refused_in_one_line(read: Callable[[], Any]) -> None:
    with pytest.raises(HashRefused) as refused:
        read()
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 150


@pytest.mark.parametrize("variant", ["x", "ID", "2", ""])
def test_of_argon2_the_three_variants_are_taken_alone(variant: str) -> None:
    """Keycloak names the variant in a field of its own, which no form of a text has checked before."""
    credential: Any
    credential, secret = KEYCLOAK[2]
    more = {**credential["additionalParameters"], "type": [variant]}
    with pytest.raises(HashRefused, match="variants i, d and id alone"):
        keycloak_hash({**credential, "additionalParameters": more}, secret)


@given(st.text(max_size=200) | st.from_regex(r"[$a-z0-9=,./{}+]{0,150}", fullmatch=True))
def test_any_other_text_is_read_within_bounds_or_refused(text: str) -> None:
    for read in (foreign_hash, read_stored, decoy_of):
        try:
            found = read(text)
        except HashRefused:
            continue
        assert read_stored(found.stored()) == found


@pytest.mark.parametrize("kind", HashKind)
def test_a_stored_hash_beyond_the_bounds_is_not_read(kind: HashKind) -> None:
    """So that nothing which came into the database in another way is computed either."""
    numbers = {name: least if name != "v" else 19 for name, (least, _) in BOUNDS[kind].parameters.items()}
    width = BOUNDS[kind].digest[0]
    sound = ForeignHash.of(kind, {**numbers, "l": width}, b"s" * max(8, BOUNDS[kind].salt[0]), b"d" * width)
    assert read_stored(sound.stored()) == sound
    for name, (_, most) in BOUNDS[kind].parameters.items():
        beyond = replace(sound, parameters={**sound.parameters, name: most + 1})
        with pytest.raises(HashRefused):
            read_stored(beyond.stored())
    for text in (sound.stored() + "\n", sound.stored()[:-1], sound.stored().replace("$foreign$", "$foreign$x"), "$foreign$"):
        with pytest.raises(HashRefused):
            read_stored(text)


def test_a_stored_hash_with_other_parameters_than_its_kind_has_is_not_read() -> None:
    """Each kind has its parameters in one order, so that equal hashes have equal texts, and nothing is computed with a number left out."""
    stored = ForeignHash.of(HashKind.SCRYPT, {"ln": 14, "r": 8, "p": 1}, b"s" * 16, b"d" * 32).stored()
    assert "$ln=14,r=8,p=1,l=32$" in stored
    for numbers in ("ln=14,r=8,p=1", "r=8,ln=14,p=1,l=32", "ln=14,r=8,p=1,l=32,i=1", "ln=14,r=8,p=1,m=32", ""):
        with pytest.raises(HashRefused, match="cannot be read"):
            read_stored(stored.replace("ln=14,r=8,p=1,l=32", numbers))


@pytest.mark.parametrize(
    ("text", "fast"),
    [
        (MADE["passlib ldap_salted_sha512"], True),
        (f"pbkdf2_sha256$599999$salt${DIGEST}", True),
        (f"pbkdf2_sha256$600000$salt${DIGEST}", False),
        ("$2b$09$" + BCRYPT, True),
        ("$2b$10$" + BCRYPT, False),
        (f"$scrypt$ln=13,r=8,p=1${SALT}${DIGEST}", True),
        (f"$scrypt$ln=14,r=8,p=1${SALT}${DIGEST}", False),
        (f"$argon2id$v=19$m=7168,t=5,p=1${SALT}${DIGEST}", False),
        (f"$argon2id$v=19$m=4096,t=3,p=1${SALT}${DIGEST}", True),
        (MADE["passlib sha512_crypt"], True),
    ],
)
def test_what_is_cheap_to_guess_at_is_fast(text: str, fast: bool) -> None:
    assert foreign_hash(text).is_fast == fast


def test_the_cost_that_passlib_takes_for_phpass_is_kept() -> None:
    assert foreign_hash("$P$HSTG2mH.eQJI8LCK.n.vhv4cCFpk09.").parameters == {"ln": 19}

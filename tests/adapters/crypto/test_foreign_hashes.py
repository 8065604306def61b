"""Hashes of other systems: checked as their own libraries check them, wrapped where they are fast, and refused at one pace."""

import time
from base64 import b64encode
from hashlib import pbkdf2_hmac, scrypt

import pytest

from adapters.crypto.password_digests import digest_of
from adapters.crypto.passwords import Argon2Passwords, RefusalPace
from core.domain.identity.foreign_hashes.hashes import ForeignHash, HashKind, decoy_of, read_stored
from core.domain.identity.foreign_hashes.sources import auth0_hash, firebase_hash, hash_form, keycloak_hash
from core.domain.identity.foreign_hashes.texts import foreign_hash
from core.domain.secrets import Password
from core.frozen import replace
from tests.adapters.crypto.test_passwords import QUICK, CountedMetrics, hasher
from tests.conftest import CapturedLog
from tests.foreign_hashes import FIREBASE, FIREBASE_HASH, FIREBASE_PASSWORD, FIREBASE_SALT, FORMED, KEYCLOAK, MADE, PUBLISHED, TYPED


def b64(raw: bytes) -> str:
    return b64encode(raw).decode()


def identity(digest: int, name: str) -> str:
    """ASP.NET Identity's version 3."""
    salt = bytes(range(16))
    numbers = b"".join(number.to_bytes(4, "big") for number in (digest, 1000, len(salt)))
    return b64(b"\1" + numbers + salt + pbkdf2_hmac(name, TYPED.encode(), salt, 1000, 32))


SALT = b"of the sea"
READ: dict[str, tuple[ForeignHash, str]] = {
    **{name: (foreign_hash(text), TYPED) for name, text in MADE.items()},
    **{name: (foreign_hash(text), password) for name, (text, password) in PUBLISHED.items()},
    **{f"Keycloak {at}": (keycloak_hash(*credential), TYPED) for at, credential in enumerate(KEYCLOAK)},
    "Keycloak with a provider of bcrypt": (keycloak_hash({"algorithm": "bcrypt"}, {"value": MADE["bcrypt 2a"]}), TYPED),
    "Firebase": (firebase_hash(FIREBASE_HASH, FIREBASE_SALT, FIREBASE), FIREBASE_PASSWORD),
    "Auth0 bcrypt": (auth0_hash(MADE["bcrypt 2b"]), TYPED),
    "Auth0 LDAP": (auth0_hash({"algorithm": "ldap", "hash": {"value": MADE["passlib ldap_salted_sha1"]}}), TYPED),
    "Auth0 PBKDF2": (
        auth0_hash(
            {
                "algorithm": "pbkdf2",
                "hash": {
                    "value": f"$pbkdf2-sha512$i=2000,l=64${b64(SALT).rstrip('=')}"
                    f"${b64(pbkdf2_hmac('sha512', TYPED.encode(), SALT, 2000)).rstrip('=')}",
                    "encoding": "utf8",
                },
            }
        ),
        TYPED,
    ),
    "Auth0 scrypt": (
        auth0_hash(
            {
                "algorithm": "scrypt",
                "keylen": 32,
                "cost": 1024,
                "hash": {"value": scrypt(TYPED.encode(), salt=SALT, n=1024, r=8, p=1, dklen=32).hex(), "encoding": "hex"},
                "salt": {"value": b64(SALT), "encoding": "base64"},
            }
        ),
        TYPED,
    ),
    "Identity 2": (
        foreign_hash(b64(b"\0" + bytes(16) + pbkdf2_hmac("sha1", TYPED.encode(), bytes(16), 1000, 32))),
        TYPED,
    ),
    "Identity 3, SHA-256": (foreign_hash(identity(1, "sha256")), TYPED),
    "Identity 3, SHA-512": (foreign_hash(identity(2, "sha512")), TYPED),
    "Spring": (foreign_hash("{bcrypt}" + MADE["bcrypt 2a"]), TYPED),
    **{name: (hash_form(form).hash_of(text, salt), TYPED) for name, (form, text, salt) in FORMED.items()},
    "LDAP, crypt": (foreign_hash("{CRYPT}" + PUBLISHED["SHA-512"][0]), PUBLISHED["SHA-512"][1]),
}


async def test_each_kind_is_checked_as_its_own_system_does() -> None:
    passwords = hasher()
    for name, (foreign, typed) in READ.items():
        (stored,) = await passwords.stored([foreign])
        assert await passwords.verify(stored, Password(typed)), name
        for wrong in (typed + " ", typed.swapcase()):
            assert not await passwords.verify(stored, Password(wrong)), (name, wrong)
        assert await passwords.verify(foreign.stored(), Password(typed)), name
        assert passwords.is_outdated(stored)
    assert {foreign.kind for foreign, _ in READ.values()} == {*HashKind}


async def test_no_password_stops_a_check() -> None:
    passwords = hasher()
    kinds = {foreign.kind: foreign for foreign, _ in READ.values()}
    for foreign in kinds.values():
        for odd in ("", "\0", "\ud800", "\U0001f511" * 128):
            assert not await passwords.verify(foreign.stored(), Password(odd)), (foreign.kind, odd)


async def test_those_that_are_fast_are_wrapped_and_no_other() -> None:
    passwords = hasher()
    hashes = [foreign for foreign, _ in READ.values()]
    texts = await passwords.stored(hashes)
    for foreign, text in zip(hashes, texts, strict=True):
        kept = read_stored(text)
        assert (kept.kind, kept.parameters, kept.salt) == (foreign.kind, foreign.parameters, foreign.salt)
        assert (kept.digest is None) == foreign.is_fast
        assert foreign.digest is not None
        assert (b64(foreign.digest).rstrip("=") in text) == (not foreign.is_fast)
    # A wrapped one is wrapped already.
    assert await passwords.stored([read_stored(text) for text in texts]) == texts


async def test_bcrypt_reads_72_bytes_as_everywhere() -> None:
    import bcrypt  # noqa: PLC0415 - the maker of the hash

    made = bcrypt.hashpw(b"x" * 72, b"$2b$04$" + b"a" * 21 + b"e").decode()
    assert await hasher().verify(foreign_hash(made).stored(), Password("x" * 100))
    assert not await hasher().verify(foreign_hash(made).stored(), Password("x" * 71))


@pytest.mark.parametrize(
    "encoded",
    [
        "$foreign$",
        "$foreign$bcrypt$r=31$AAAA$AAAA",
        foreign_hash(MADE["bcrypt 2a"]).stored()[:-1],
        replace(foreign_hash(MADE["bcrypt 2a"]), digest=None, wrapping="$argon2id$v=19$m=4000000000,t=1,p=1$c2FsdHNhbHQ$AAAA").stored(),
        f"$foreign$scrypt$ln=20,r=64,p=64,l=16${'A' * 22}${'A' * 22}",
    ],
)
async def test_a_corrupted_one_is_a_no_and_never_computed(encoded: str, log: CapturedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log.allow("password_hash_corrupted")
    passwords = hasher()
    checked: list[str] = []
    real = passwords._argon2._is_of

    def matches(tried: str, secret: bytes) -> bool:
        checked.append(tried)
        return real(tried, secret)

    monkeypatch.setattr(passwords._argon2, "_is_of", matches)
    assert not await passwords.verify(encoded, Password(TYPED))
    assert set(checked) <= {passwords._decoy}


async def test_a_renewed_hash_is_ours_and_the_same_for_two_at_once() -> None:
    passwords = hasher()
    stored = foreign_hash(MADE["bcrypt 2a"]).stored()
    one, other = await passwords.renew(stored, Password(TYPED)), await passwords.renew(stored, Password(TYPED))
    assert one == other
    assert not passwords.is_outdated(one)
    assert await passwords.verify(one, Password(TYPED))
    another = await passwords.renew(foreign_hash(MADE["bcrypt 2b"]).stored(), Password(TYPED))
    assert another.split("$")[4] != one.split("$")[4]
    assert (await passwords.renew(stored, Password("another"))).split("$")[5] != one.split("$")[5]


def test_sha_crypt_gives_the_interpreters_lock_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the one kind that Python computes itself. Otherwise, the event loop would wait for five milliseconds at each of its turns."""
    given: list[float] = []
    monkeypatch.setattr("adapters.crypto.password_digests.time.sleep", given.append)
    digest_of(Password("x"), decoy_of("sha512-crypt$i=6400"))
    assert given == [0] * 100


class TestPace:
    def test_without_hashes_of_others_nobody_waits(self) -> None:
        assert RefusalPace().end_of(100.0, 0.02, None) is None

    def test_every_refusal_ends_when_that_of_the_slowest_does(self) -> None:
        pace = RefusalPace()
        slowest = pace.end_of(100.0, 0.8, "bcrypt$r=13")
        assert slowest == 101.0
        assert pace.end_of(100.0, 0.02, None) == slowest
        assert pace.end_of(100.0, 0.05, "bcrypt$r=9") == slowest
        assert pace.end_of(100.0, 0.9, "bcrypt$r=13") == slowest

    def test_one_that_takes_longer_still_ends_at_twice_the_time(self) -> None:
        pace = RefusalPace()
        pace.end_of(100.0, 0.8, "bcrypt$r=13")
        assert pace.end_of(100.0, 1.1, None) == 102.0
        assert pace.end_of(100.0, 0.02, None) == 100.0 + 1.25 * 1.1

    def test_what_made_one_slow_is_forgotten_slowly(self) -> None:
        pace = RefusalPace()
        for seconds in (3.0, *[0.8] * 400):
            pace.end_of(100.0, seconds, "bcrypt$r=13")
        assert pace.end_of(100.0, 0.02, None) == pytest.approx(101.0, abs=0.1)

    def test_when_none_remain_nobody_waits_any_more(self) -> None:
        pace = RefusalPace()
        pace.end_of(100.0, 0.8, "bcrypt$r=13")
        pace.end_of(100.0, 0.02, None)
        pace.keep(["ssha$"])
        assert not pace.knows("bcrypt$r=13")
        assert pace.end_of(100.0, 0.02, None) is None

    def test_however_busy_the_machine_was_the_wait_is_bounded(self) -> None:
        pace = RefusalPace()
        pace.end_of(100.0, 600.0, "bcrypt$r=13")
        assert pace.end_of(0.0, 0.02, None) == 5.0


async def test_what_remains_is_measured_once_and_forgotten_with_the_last() -> None:
    metrics = CountedMetrics()
    passwords = Argon2Passwords(QUICK, 2, metrics)  # type: ignore[arg-type]  # the part that is used
    nobody = await passwords.examine(None, Password("x"))
    assert nobody.not_before is None
    shapes = ["pbkdf2-sha256$i=100000,l=32", "ssha$", "unknown$x=1", "bcrypt$r=99"]
    await passwords.expect(shapes)
    measured = len(metrics.hashed)
    await passwords.expect(shapes)
    assert len(metrics.hashed) == measured + 1
    for encoded in (None, await passwords.hash(Password("another")), (await passwords.stored([foreign_hash(MADE["bcrypt 2a"])]))[0]):
        began = time.perf_counter()
        examined = await passwords.examine(encoded, Password("x"))
        assert examined.not_before is not None
        await passwords.hold_back(examined)
        assert time.perf_counter() >= examined.not_before > began
    await passwords.expect([])
    assert (await passwords.examine(None, Password("x"))).not_before is None

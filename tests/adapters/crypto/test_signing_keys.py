"""Signing keys in use: how they are made, and what a process knows of them."""

import json
from datetime import timedelta

import jwt
import pytest
import trio
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_der_private_key
from trio.testing import MockClock, wait_all_tasks_blocked

from adapters.crypto.key_ring import AesGcmKeyRing, EncryptionKey
from adapters.crypto.signing_keys import CryptoKeyMaker, KeyCache, thumbprint
from core.domain.errors import Overloaded, Unavailable
from core.domain.tokens import KeyPurpose, KeyState, signing_key_context
from tests.conftest import CapturedLog
from tests.signing import NOW, RING, StoredKeys, current_key, next_key, outgoing_key


@pytest.mark.parametrize("purpose", KeyPurpose)
async def test_a_made_key_is_published_whole_and_its_private_half_is_sealed(purpose: KeyPurpose) -> None:
    key = await CryptoKeyMaker(RING).make(purpose, NOW)
    assert (key.purpose, key.state, key.created_at, key.activated_at, key.retires_at) == (purpose, KeyState.NEXT, NOW, None, None)
    assert key.public_jwk["kid"] == key.id == thumbprint(key.public_jwk)
    assert key.public_jwk["use"] == "sig"
    assert key.public_jwk["alg"] == purpose.algorithm
    assert not {"d", "p", "q", "dp", "dq", "qi", "k"} & set(key.public_jwk)
    private = load_der_private_key(RING.open(key.sealed_private_key, signing_key_context(key.id)), None)
    token = jwt.encode({"a": 1}, private, algorithm=purpose.algorithm)  # type: ignore[arg-type]  # one of the two kinds that it takes
    assert jwt.decode(token, jwt.PyJWK(dict(key.public_jwk)), algorithms=[purpose.algorithm]) == {"a": 1}
    if purpose is KeyPurpose.ID:
        assert isinstance(private, RSAPrivateKey)
        assert private.key_size == 2048


def test_the_thumbprint_is_that_of_rfc_7638() -> None:
    modulus = (
        "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMs"
        "tn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbI"
        "SD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw"
    )
    jwk = {"kty": "RSA", "n": modulus, "e": "AQAB", "alg": "RS256", "kid": "2011-04-29"}
    assert thumbprint(jwk) == "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"


async def test_the_keys_are_read_once_and_then_known() -> None:
    stored = StoredKeys([current_key(KeyPurpose.ACCESS), next_key(KeyPurpose.ACCESS, 1)])
    cache = stored.cache()
    assert cache.known_access_key(current_key(KeyPurpose.ACCESS).id) is None
    for _ in range(10):
        key = await cache.access_key(current_key(KeyPurpose.ACCESS).id)
        assert key is not None
        assert (await cache.signing_key(KeyPurpose.ACCESS))[0] == key.id
        assert cache.known_access_key(key.id) is key
        assert len(await cache.all()) == 2
    assert stored.reads == 1


async def test_a_key_for_id_tokens_is_no_access_key() -> None:
    cache = StoredKeys([current_key(KeyPurpose.ID)]).cache()
    assert await cache.access_key(current_key(KeyPurpose.ID).id) is None
    assert (await cache.signing_key(KeyPurpose.ID))[0] == current_key(KeyPurpose.ID).id


async def test_a_rotation_is_noticed_within_half_a_minute() -> None:
    stored = StoredKeys([current_key(KeyPurpose.ACCESS)])
    cache = stored.cache()
    assert (await cache.signing_key(KeyPurpose.ACCESS))[0] == current_key(KeyPurpose.ACCESS).id
    stored.keys = [outgoing_key(KeyPurpose.ACCESS, NOW + timedelta(days=2)), current_key(KeyPurpose.ACCESS, 1)]
    stored.pass_time(29)
    assert (await cache.signing_key(KeyPurpose.ACCESS))[0] == current_key(KeyPurpose.ACCESS).id
    stored.pass_time(2)
    assert cache.known_access_key(current_key(KeyPurpose.ACCESS).id) is None
    assert (await cache.signing_key(KeyPurpose.ACCESS))[0] == current_key(KeyPurpose.ACCESS, 1).id


async def test_after_a_rotation_of_its_own_a_process_reads_at_once() -> None:
    stored = StoredKeys([current_key(KeyPurpose.ACCESS)])
    cache = stored.cache()
    await cache.signing_key(KeyPurpose.ACCESS)
    stored.keys = [current_key(KeyPurpose.ACCESS, 1)]
    cache.expire()
    assert (await cache.signing_key(KeyPurpose.ACCESS))[0] == current_key(KeyPurpose.ACCESS, 1).id


async def test_an_unknown_key_is_asked_for_and_a_flood_of_them_asks_once_in_a_while() -> None:
    stored = StoredKeys([current_key(KeyPurpose.ACCESS)])
    cache = stored.cache()
    await cache.all()
    stored.pass_time(6)
    stored.keys.append(next_key(KeyPurpose.ACCESS, 1))
    assert await cache.access_key(next_key(KeyPurpose.ACCESS, 1).id) is not None
    assert stored.reads == 2
    for number in range(1000):
        assert await cache.access_key(f"made up {number}") is None
    assert stored.reads == 2
    stored.pass_time(6)
    assert await cache.access_key("made up") is None
    assert stored.reads == 3


async def test_many_that_need_the_keys_at_once_read_them_once(
    autojump_clock: MockClock,  # noqa: ARG001 - waits in no time
) -> None:
    stored = StoredKeys([current_key(KeyPurpose.ACCESS)], takes=1.0)
    cache = stored.cache()
    found = []

    async def look() -> None:
        found.append(await cache.access_key(current_key(KeyPurpose.ACCESS).id))

    async with trio.open_nursery() as nursery:
        for _ in range(100):
            nursery.start_soon(look)
    assert len(found) == 100
    assert None not in found
    assert stored.reads == 1


async def test_two_requests_with_a_new_key_both_find_it(
    autojump_clock: MockClock,  # noqa: ARG001 - waits in no time
) -> None:
    stored = StoredKeys([current_key(KeyPurpose.ACCESS)], takes=1.0)
    cache = stored.cache()
    await cache.all()
    stored.pass_time(6)
    stored.keys.append(next_key(KeyPurpose.ACCESS, 1))
    found = []

    async def look() -> None:
        found.append(await cache.access_key(next_key(KeyPurpose.ACCESS, 1).id))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(look)
        await wait_all_tasks_blocked()  # the first is asking the database
        nursery.start_soon(look)
    assert len(found) == 2
    assert None not in found


async def test_while_one_renews_the_others_go_on_with_what_is_known(
    autojump_clock: MockClock,  # noqa: ARG001 - waits in no time
) -> None:
    stored = StoredKeys([current_key(KeyPurpose.ACCESS)])
    cache = stored.cache()
    await cache.signing_key(KeyPurpose.ACCESS)
    stored.takes = 2.0
    stored.pass_time(31)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cache.all)
        await wait_all_tasks_blocked()
        started = trio.current_time()
        await cache.signing_key(KeyPurpose.ACCESS)
        assert trio.current_time() == started


@pytest.mark.parametrize("fault", [Unavailable(retry_after=1), Overloaded(retry_after=1), None])
async def test_known_keys_serve_on_while_the_database_is_away_or_hangs(
    fault: Exception | None,
    log: CapturedLog,
    autojump_clock: MockClock,  # noqa: ARG001 - waits in no time
) -> None:
    stored = StoredKeys([current_key(KeyPurpose.ACCESS)])
    cache = stored.cache()
    await cache.all()
    stored.fault = fault
    stored.takes = 0.0 if fault else 3600.0
    stored.pass_time(3600)
    started = trio.current_time()
    for _ in range(20):
        assert (await cache.signing_key(KeyPurpose.ACCESS))[0] == current_key(KeyPurpose.ACCESS).id
        assert await cache.access_key("made up") is None
    assert trio.current_time() - started <= 3
    assert stored.reads == 2
    assert len(log.events("signing_keys_not_renewed")) == 1


async def test_without_any_key_read_ever_there_is_a_refusal_that_says_when_to_return(
    autojump_clock: MockClock,  # noqa: ARG001 - waits in no time
) -> None:
    stored = StoredKeys([], fault=Unavailable(retry_after=1), takes=1.0)
    cache = stored.cache()
    refused = 0

    async def look() -> None:
        nonlocal refused
        with pytest.raises(Unavailable):
            await cache.access_key("any")
        refused += 1

    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(look)
    assert refused == 50
    assert stored.reads == 1, "those who waited share the misfortune instead of repeating it one after the other"
    stored.fault = None
    stored.keys = [current_key(KeyPurpose.ACCESS)]
    assert len(await cache.all()) == 1


async def test_a_cancelled_reader_leaves_the_reading_to_the_next(
    autojump_clock: MockClock,  # noqa: ARG001 - waits in no time
) -> None:
    stored = StoredKeys([current_key(KeyPurpose.ACCESS)], takes=2.0)
    cache = stored.cache()
    with trio.move_on_after(1):
        await cache.all()
    assert len(await cache.all()) == 1
    assert stored.reads == 2


async def test_without_a_current_key_nothing_is_signed() -> None:
    with pytest.raises(Unavailable) as caught:
        await StoredKeys([next_key(KeyPurpose.ACCESS)]).cache().signing_key(KeyPurpose.ACCESS)
    assert caught.value.detail == "no current access key is stored"


async def test_a_key_sealed_under_a_lost_ring_verifies_but_cannot_sign(log: CapturedLog) -> None:
    stored = StoredKeys([current_key(KeyPurpose.ACCESS)])
    cache = KeyCache(stored.load, AesGcmKeyRing([EncryptionKey("other", b"x" * 32)]))
    log.allow("signing_key_unreadable")
    assert await cache.access_key(current_key(KeyPurpose.ACCESS).id) is not None
    with pytest.raises(Unavailable):
        await cache.signing_key(KeyPurpose.ACCESS)
    assert log.events("signing_key_unreadable")


async def test_private_halves_leave_the_memory_when_they_no_longer_sign() -> None:
    stored = StoredKeys([current_key(KeyPurpose.ACCESS), current_key(KeyPurpose.ID)])
    cache = stored.cache()
    for purpose in (KeyPurpose.ACCESS, KeyPurpose.ID):
        await cache.signing_key(purpose)
    assert len(cache._halves) == 2
    stored.keys = [outgoing_key(KeyPurpose.ACCESS, NOW), current_key(KeyPurpose.ACCESS, 1), current_key(KeyPurpose.ID)]
    cache.expire()
    await cache.signing_key(KeyPurpose.ACCESS)
    assert set(cache._halves) == {current_key(KeyPurpose.ACCESS, 1).id, current_key(KeyPurpose.ID).id}


def test_a_published_key_is_plain_json() -> None:
    assert json.loads(json.dumps(current_key(KeyPurpose.ID).public_jwk)) == current_key(KeyPurpose.ID).public_jwk

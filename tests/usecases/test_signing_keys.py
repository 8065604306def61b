"""Signing keys: made once, rotated without a token failing."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import jwt
import pytest
import trio
from psycopg.rows import dict_row

from adapters.crypto.signing_keys import KeyCache
from adapters.crypto.tokens import JwtSigner, JwtVerifier
from adapters.postgres.driver.connection import Connection
from adapters.postgres.driver.pool import Pool
from adapters.postgres.jobs import PostgresDoorbell
from adapters.postgres.unit_of_work import unit_of_work
from adapters.system import SystemIds
from core.domain.errors import Conflict, TokenInvalid
from core.domain.identifiers import UserId
from core.domain.record.events import Actor
from core.domain.tokens import KEY_OVERLAP, KeyPurpose, KeyState, SigningKey
from core.usecases.keys import SigningKeys, stored
from ports.crypto import KeyMaker
from tests.signing import ISSUER, RING, SettableClock, ShelvedKeys, access_claims


@dataclass
class Process:
    """One serving process: its own pool, its own knowledge of the keys."""

    pool: Pool
    clock: SettableClock
    key_maker: KeyMaker
    monotonic: float = 0.0

    def __post_init__(self) -> None:
        self.unit_of_work = unit_of_work(self.pool, SystemIds(), self.clock, RING, PostgresDoorbell("unused"))
        self.cache = KeyCache(stored(self.unit_of_work), RING, monotonic=lambda: self.monotonic)
        self.signing_keys = SigningKeys(self.unit_of_work, self.key_maker, self.clock, self.cache)
        self.signer = JwtSigner(self.cache)
        self.verifier = JwtVerifier(self.cache, ISSUER, self.clock)


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[Pool]:
    pool = Pool(database_url, max_size=10)
    await pool.open()
    yield pool
    await pool.aclose()


@pytest.fixture
def process(pool: Pool) -> Process:
    return Process(pool, SettableClock(), ShelvedKeys())


def places(keys: Sequence[SigningKey]) -> list[tuple[str, str]]:
    return sorted((key.purpose.value, key.state.value) for key in keys)


FULL = sorted((purpose.value, state) for purpose in KeyPurpose for state in ("current", "next"))


async def test_the_first_start_makes_a_current_and_a_next_key_for_each_purpose(process: Process) -> None:
    await process.signing_keys.ensure()
    keys = await process.signing_keys.list()
    assert places(keys) == FULL
    assert all((key.activated_at is not None) == (key.state is KeyState.CURRENT) for key in keys)


async def test_later_starts_leave_the_keys_alone(process: Process) -> None:
    await process.signing_keys.ensure()
    before = await process.signing_keys.list()
    await process.signing_keys.ensure()
    assert await process.signing_keys.list() == before


class StartingLine:
    """A key maker that holds its caller until this many keys are made: by then nobody can have stored any."""

    def __init__(self, keys: int) -> None:
        self._shelf = ShelvedKeys(first=50)
        self._missing = keys
        self.everybody = trio.Event()

    async def make(self, purpose: KeyPurpose, created_at: datetime) -> SigningKey:
        key = await self._shelf.make(purpose, created_at)
        self._missing -= 1
        if self._missing == 0:
            self.everybody.set()
        await self.everybody.wait()
        return key


async def test_many_first_starts_at_once_make_one_set(process: Process, database_url: str) -> None:
    # One key is missing, so that each makes exactly one, and all of them before the first stores it.
    await process.signing_keys.ensure()
    await execute(database_url, "delete from signing_keys where purpose = 'access' and state = 'next'")
    line = StartingLine(keys=6)
    starting = [Process(process.pool, process.clock, line) for _ in range(6)]
    async with trio.open_nursery() as nursery:
        for each in starting:
            nursery.start_soon(each.signing_keys.ensure)
    assert line.everybody.is_set()
    assert places(await process.signing_keys.list()) == FULL


async def test_a_set_with_a_gap_is_filled(process: Process, database_url: str) -> None:
    await process.signing_keys.ensure()
    before = {key.id for key in await process.signing_keys.list()}
    await execute(database_url, "delete from signing_keys where purpose = 'id' and state = 'next'")
    await process.signing_keys.ensure()
    after = await process.signing_keys.list()
    assert places(after) == FULL
    assert len({key.id for key in after} & before) == 7


async def test_a_rotation_moves_every_key_one_place_on(process: Process) -> None:
    await process.signing_keys.ensure()
    before = await process.signing_keys.list()
    process.clock.advance(timedelta(days=90))
    rotations = await process.signing_keys.rotate()
    after = {key.id: key for key in await process.signing_keys.list()}
    assert [rotation.purpose for rotation in rotations] == list(KeyPurpose)
    for rotation in rotations:
        assert [key.id for key in before if key.purpose is rotation.purpose and key.state is KeyState.CURRENT] == [rotation.outgoing]
        assert [key.id for key in before if key.purpose is rotation.purpose and key.state is KeyState.NEXT] == [rotation.activated]
        assert after[rotation.outgoing].state is KeyState.OUTGOING
        assert after[rotation.outgoing].retires_at == process.clock.now() + KEY_OVERLAP
        assert after[rotation.activated].state is KeyState.CURRENT
        assert after[rotation.activated].activated_at == process.clock.now()
        assert after[rotation.added].state is KeyState.NEXT
        assert rotation.published_for == timedelta(days=90)
        assert not rotation.is_hasty
    assert len(after) == 12
    assert all(rotation.is_hasty for rotation in await process.signing_keys.rotate())


async def test_no_token_fails_across_a_rotation_and_none_is_believed_for_ever(process: Process) -> None:
    other = Process(process.pool, process.clock, process.key_maker)
    await process.signing_keys.ensure()
    now = int(process.clock.now().timestamp())
    long_lived = access_claims(exp=now + 30 * 86_400, iat=now)
    before = await process.signer.sign_access(long_lived)
    await other.verifier.verify_access(before)
    await process.signing_keys.rotate()
    after = await process.signer.sign_access(long_lived)
    assert kid(after) != kid(before), "the process that rotates signs with the new key at once"
    for token in (before, after, await other.signer.sign_access(long_lived)):
        await other.verifier.verify_access(token)
        await process.verifier.verify_access(token)
    process.clock.advance(KEY_OVERLAP)
    other.monotonic += KEY_OVERLAP.total_seconds()
    with pytest.raises(TokenInvalid):
        await other.verifier.verify_access(before)
    await other.verifier.verify_access(after)


async def test_relying_parties_see_the_next_the_current_and_the_outgoing_key(process: Process) -> None:
    await process.signing_keys.ensure()
    before = set(published(await process.signing_keys.published()))
    assert len(before) == 8
    await process.signing_keys.rotate()
    after = published(await process.signing_keys.published())
    assert before < set(after)
    assert len(after) == 12
    process.clock.advance(KEY_OVERLAP)
    assert len(published(await process.signing_keys.published())) == 8
    for jwk in after.values():
        assert {"kid", "use", "alg", "kty"} <= set(jwk)
        assert not {"d", "p", "q", "k"} & set(jwk)


async def test_publishing_costs_the_database_nothing_while_the_keys_are_known(process: Process) -> None:
    await process.signing_keys.ensure()
    await process.signing_keys.published()
    await process.pool.aclose()
    assert len(published(await process.signing_keys.published())) == 8


async def test_keys_whose_time_is_over_go_with_the_next_rotation(process: Process) -> None:
    """Those of ID tokens much later, since the tokens come back as hints; nobody else needs them."""
    await process.signing_keys.ensure()
    await process.signing_keys.rotate()
    process.clock.advance(KEY_OVERLAP + timedelta(seconds=1))
    await process.signing_keys.rotate()
    assert len(await process.signing_keys.list()) == 15
    assert len(published(await process.signing_keys.published())) == 12
    process.clock.advance(KEY_OVERLAP + timedelta(days=401))
    await process.signing_keys.rotate()
    assert len(await process.signing_keys.list()) == 12


async def test_two_rotations_at_once_happen_one_after_the_other(process: Process) -> None:
    await process.signing_keys.ensure()
    other = Process(process.pool, process.clock, process.key_maker)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(process.signing_keys.rotate)
        nursery.start_soon(other.signing_keys.rotate)
    assert places(await process.signing_keys.list()) == sorted([*FULL, *[(purpose.value, "outgoing") for purpose in KeyPurpose] * 2])


async def test_without_keys_there_is_nothing_to_rotate(process: Process) -> None:
    with pytest.raises(Conflict):
        await process.signing_keys.rotate()
    assert await process.signing_keys.list() == []


async def test_a_rotation_is_on_record_with_who_did_it(process: Process, database_url: str) -> None:
    await process.signing_keys.ensure()
    owner = UserId(SystemIds().new())
    rotation, *_ = await process.signing_keys.rotate(Actor(user=owner))
    entries = await execute(database_url, "select action, actor_id, target_id, details, success from audit_log order by id")
    assert len(entries) == len(KeyPurpose)
    assert entries[0] == {
        "action": "platform.signing_keys.rotated",
        "actor_id": owner,
        "target_id": rotation.activated,
        "details": {"purpose": "access", "outgoing": rotation.outgoing, "next": rotation.added},
        "success": True,
    }


async def test_a_dump_of_the_database_holds_no_usable_private_key(process: Process, database_url: str) -> None:
    await process.signing_keys.ensure()
    for key in await process.signing_keys.list():
        private = RING.open(key.sealed_private_key, f"signing_keys.sealed_private_key:{key.id}")
        rows = await execute(database_url, "select signing_keys::text as row from signing_keys")
        # The numbers of a private key stand at its end; no eight bytes of them are in the dump.
        assert not any(private[start : start + 8].hex() in str(row["row"]) for row in rows for start in range(60, len(private) - 8, 8))


def kid(token: str) -> str:
    return str(jwt.get_unverified_header(token)["kid"])


def published(key_set: object) -> dict[str, dict[str, str]]:
    assert isinstance(key_set, dict)
    return {jwk["kid"]: jwk for jwk in key_set["keys"]}


async def execute(url: str, statement: str) -> list[dict[str, object]]:
    async with await Connection.connect(url) as connection:
        cursor = connection.cursor(row_factory=dict_row)
        await cursor.execute(statement.encode())
        return await cursor.fetchall() if cursor.description else []

"""The chains of the audit log: how they grow under many linkers and interruptions; and every way of tampering that shows."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID

import pytest
import trio

from adapters.postgres.driver.connection import Connection, TripCounter, round_trips
from adapters.postgres.record import audit
from adapters.postgres.record.audit import PostgresAuditChains, PostgresAuditLog
from adapters.postgres.server_secrets import PostgresServerSecrets
from core.domain.causes import caused_by
from core.domain.errors import Unavailable
from core.domain.identifiers import AuditEntryId, OrganizationId, UserId
from core.domain.record.audit import PLATFORM_CHAIN, ChainFinding, ChainHead, Fault, PersonalPart, StoredLink
from core.domain.record.events import SYSTEM, Actor, Event, Target
from core.usecases import record as audit_usecase
from core.usecases.record import Audit, CheckedChain
from tests.adapters.postgres.conftest import Store
from tests.steps import watched_steps

KEY = b"k" * 32


@dataclass
class ChainScene:
    store: Store
    chains: PostgresAuditChains
    audit: Audit
    acme: OrganizationId
    bolt: OrganizationId

    async def record(self, organization: OrganizationId | None, count: int = 1) -> Sequence[AuditEntryId]:
        """Records events in one transaction, oldest first."""
        async with self.store.unit_of_work() as uow:
            entries = []
            for number in range(count):
                actor = Actor(UserId(UUID(int=7)), address="192.0.2.7", user_agent="Mozilla/5.0")
                event = Event("role.created", actor, Target("role", str(number)), organization, {"n": number}, personal={"name": "Ada"})
                entry = await uow.record(event)
                assert entry is not None
                entries.append(entry)
            await uow.commit()
        return entries

    async def link_all(self) -> int:
        total = 0
        while linked := await self.audit.link():
            total += linked
        return total

    async def chain(self, organization: OrganizationId | None = None) -> list[tuple[int, UUID]]:
        rows = await self.store.query(
            "select sequence, entry_id from audit_links where chain_id = %(chain)s order by sequence",
            {"chain": organization or PLATFORM_CHAIN},
        )
        return [(row["sequence"], row["entry_id"]) for row in rows]

    async def tamper(self, statement: str, **parameters: object) -> None:
        """Changes the tables as an attacker whom no key, check or reference holds back."""
        async with await Connection.connect(self.store.url) as connection, connection.transaction():
            await connection.execute("set local session_replication_role = replica")
            changed = await connection.execute(statement.encode(), parameters)
            assert changed.rowcount > 0, statement

    async def verify(
        self, only: OrganizationId | None = None, noted: ChainHead | None = None
    ) -> tuple[list[ChainFinding], list[CheckedChain]]:
        findings: list[ChainFinding] = []
        checked: list[CheckedChain] = []
        await self.audit.verify(lambda _name, finding: findings.append(finding), checked.append, only=only, noted=noted)
        return findings, checked

    async def faults(self, only: OrganizationId | None = None, noted: ChainHead | None = None) -> list[tuple[Fault, int | None]]:
        return [(finding.fault, finding.sequence) for finding in (await self.verify(only, noted))[0]]


@pytest.fixture
def bench(store: Store) -> ChainScene:
    chains = PostgresAuditChains(store.pool)
    secrets = PostgresServerSecrets(store.pool, store.keyring, store.clock)
    audit = Audit(PostgresAuditLog(store.pool), chains, secrets)
    return ChainScene(store, chains, audit, OrganizationId(store.ids.new()), OrganizationId(store.ids.new()))


@pytest.fixture
async def linked(bench: ChainScene) -> ChainScene:
    """Five entries of acme's, three of bolt's, two of the platform's."""
    for organization, count in ((bench.acme, 3), (bench.bolt, 3), (None, 2), (bench.acme, 2)):
        await bench.record(organization, count)
    assert await bench.link_all() == 10
    assert await bench.verify() != ([], [])
    assert (await bench.verify())[0] == []
    return bench


async def test_entries_are_linked_in_their_order_each_into_its_own_chain(bench: ChainScene) -> None:
    first = await bench.record(bench.acme, 3)
    other = await bench.record(bench.bolt, 2)
    platform = await bench.record(None, 1)
    second = await bench.record(bench.acme, 2)
    assert await bench.audit.link() == 8
    assert await bench.chain(bench.acme) == list(enumerate([*first, *second], 1))
    assert await bench.chain(bench.bolt) == list(enumerate(other, 1))
    assert await bench.chain() == list(enumerate(platform, 1))
    assert await bench.store.count("audit_pending") == 0
    assert await bench.audit.link() == 0


async def test_a_verification_tells_how_far_it_is(linked: ChainScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "_READ_AT_ONCE", 4)
    told: dict[str, list[int | None]] = {}

    @contextmanager
    def progress(title: str, total: int | None, _unit: str) -> Iterator[Callable[[int], None]]:
        told[title] = [total]
        yield told[title].append

    async def verify(only: OrganizationId | None) -> None:
        told.clear()
        await linked.audit.verify(lambda *_: None, lambda _: None, only=only, progress=progress)

    await verify(linked.acme)
    assert told["Verifying the chains"] == [5, 5]
    total, *read = told["Looking for entries outside the chains"]
    assert (total, {*read}) == (5, {4})
    await linked.store.settle("audit_links")
    await verify(None)
    assert sorted(told["Verifying the chains"][1:], key=repr) == [2, 3, 5]
    assert told["Verifying the chains"][0] == 10


async def test_a_chain_goes_on_where_it_ended(bench: ChainScene) -> None:
    for _ in range(5):
        await bench.record(bench.acme)
        assert await bench.audit.link() == 1
    findings, (checked,) = await bench.verify()
    assert (findings, checked.links, checked.head.sequence) == ([], 5, 5)


async def test_a_batch_ends_at_its_size_and_the_next_one_takes_the_rest(bench: ChainScene) -> None:
    entries = await bench.record(bench.acme, 7)
    assert [await bench.chains.link(KEY, 3) for _ in range(4)] == [3, 3, 1, 0]
    assert await bench.chain(bench.acme) == list(enumerate(entries, 1))


async def test_an_entry_that_is_committed_late_is_linked_late_and_not_lost(bench: ChainScene) -> None:
    async with bench.store.unit_of_work() as uow:
        late = await uow.record(Event("role.created", SYSTEM, Target("role", "1"), bench.acme))
        soon = await bench.record(bench.acme)
        await bench.link_all()
        await uow.commit()
    await bench.link_all()
    assert await bench.chain(bench.acme) == [(1, soon[0]), (2, late)]
    assert await bench.faults() == []


async def test_many_linkers_at_once_make_one_chain(bench: ChainScene) -> None:
    await bench.record(bench.acme, 300)
    await bench.record(bench.bolt, 100)
    outcomes: list[int | None] = []

    async def work() -> None:
        while await bench.store.count("audit_pending"):
            outcomes.append(await bench.chains.link(KEY, 20))

    async with trio.open_nursery() as nursery:
        for _ in range(6):
            nursery.start_soon(work)
    assert sum(outcome or 0 for outcome in outcomes) == 400
    assert None in outcomes  # some came while another was at it
    assert [sequence for sequence, _ in await bench.chain(bench.acme)] == list(range(1, 301))
    assert [sequence for sequence, _ in await bench.chain(bench.bolt)] == list(range(1, 101))


async def test_entries_written_while_others_are_linked_are_all_linked(bench: ChainScene) -> None:
    async def write() -> None:
        for _ in range(20):
            await bench.record(bench.acme, 3)

    async with trio.open_nursery() as everything:
        async with trio.open_nursery() as writers:
            everything.start_soon(_link_for_ever, bench)
            everything.start_soon(_link_for_ever, bench)
            for _ in range(4):
                writers.start_soon(write)
        everything.cancel_scope.cancel()
    await bench.link_all()
    assert await bench.faults() == []
    assert len(await bench.chain(bench.acme)) == 240


async def _link_for_ever(bench: ChainScene) -> None:
    while True:
        await bench.audit.link()
        await trio.sleep(0.001)


async def test_the_linker_may_die_between_any_two_statements(bench: ChainScene, monkeypatch: pytest.MonkeyPatch) -> None:
    await bench.record(bench.acme, 3)
    await bench.link_all()
    entries = await bench.record(bench.acme, 3)
    statements = ("_TAKE", "_HEADS", "ADD_LINKS")
    for name in statements:
        with monkeypatch.context() as broken:
            # The server ends the connection when it comes to this statement, and rolls back.
            broken.setattr(audit, name, "select pg_terminate_backend(pg_backend_pid())")
            with pytest.raises(Unavailable):
                await bench.audit.link()
        assert await bench.store.count("audit_pending") == 3
        assert len(await bench.chain(bench.acme)) == 3
    assert await bench.audit.link() == 3
    assert [entry for _, entry in await bench.chain(bench.acme)][3:] == list(entries)
    assert await bench.faults() == []


async def test_cancelling_the_linker_leaves_all_or_nothing(bench: ChainScene) -> None:
    await bench.record(bench.acme, 50)
    for pause in (0.0, 0.0005, 0.001, 0.002, 0.004, 0.008):
        with trio.move_on_after(pause):
            await bench.audit.link()
        rows = await bench.store.count("audit_pending"), len(await bench.chain(bench.acme))
        assert rows in {(50, 0), (0, 50)}
    await bench.link_all()
    assert await bench.faults() == []


async def test_an_entry_that_waits_although_it_is_linked_stops_nobody(linked: ChainScene) -> None:
    (_, entry), *_ = await linked.chain(linked.acme)
    await linked.tamper("insert into audit_pending (entry_id, chain_id) values (%(entry)s, %(chain)s)", entry=entry, chain=linked.acme)
    await linked.record(linked.acme)
    assert await linked.audit.link() == 1
    assert await linked.store.count("audit_pending") == 0
    assert len(await linked.chain(linked.acme)) == 6
    assert await linked.faults() == []


async def test_what_linking_costs_in_round_trips(bench: ChainScene) -> None:
    await bench.record(bench.acme, 50)
    await bench.audit.link()
    measured = []
    for count in (50, 0):
        await bench.record(bench.acme, count)
        token = round_trips.set(trips := TripCounter())
        await bench.audit.link()
        round_trips.reset(token)
        measured.append(trips.count)
    assert measured == [4, 3]


async def test_while_much_is_linked_others_have_their_turns(bench: ChainScene) -> None:
    longest = []
    for _ in range(4):
        await bench.record(bench.acme, 1000)
        with watched_steps() as steps:
            assert await bench.audit.link() == 1000
        longest.append(max(steps))
    # Twice to three times what it takes: the tests trace the code that hashes. With lists in place of texts it was more.
    assert min(longest) < 0.005
    assert await bench.faults() == []


async def test_a_part_of_many_chains_asks_for_their_heads_at_once(bench: ChainScene) -> None:
    organizations = [OrganizationId(bench.store.ids.new()) for _ in range(150)]
    await bench.record(bench.acme)
    await bench.audit.link()
    async with bench.store.unit_of_work() as uow:
        await uow.record_all([Event("role.created", SYSTEM, Target("role", "1"), organization) for organization in organizations])
        await uow.commit()
    token = round_trips.set(trips := TripCounter())
    assert await bench.audit.link() == 150
    round_trips.reset(token)
    assert trips.count == 4
    assert await bench.faults() == []


async def test_many_events_are_recorded_in_the_round_trips_of_one(bench: ChainScene) -> None:
    events = [Event("invitation.expired", SYSTEM, Target("invitation", str(number)), bench.acme) for number in range(500)]
    measured = []
    for some in (events[:1], events):
        token = round_trips.set(trips := TripCounter())
        async with bench.store.unit_of_work() as uow:
            await uow.record_all(some)
            await uow.commit()
        round_trips.reset(token)
        measured.append(trips.count)
    assert measured == [1, 1]
    assert await bench.store.count("events") == await bench.store.count("audit_entries") == await bench.store.count("audit_pending") == 501
    rows = await bench.store.query("select target_id from audit_entries order by id")
    assert [int(row["target_id"]) for row in rows][1:] == list(range(500))


async def test_recording_no_events_is_nothing(bench: ChainScene) -> None:
    async with bench.store.unit_of_work() as uow:
        await uow.record_all([])
        await uow.commit()
    assert await bench.store.count("audit_entries") == 0


async def test_the_backlog_tells_how_many_wait_and_since_when(bench: ChainScene) -> None:
    assert (await bench.audit.backlog()).pending == 0
    assert (await bench.audit.backlog()).oldest is None
    before = bench.store.clock.now()
    await bench.record(bench.acme, 2)
    backlog = await bench.audit.backlog()
    assert backlog.pending == 2
    assert backlog.oldest is not None
    assert before <= backlog.oldest <= bench.store.clock.now()


async def test_the_backlog_stops_counting(bench: ChainScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "MOST_PENDING_COUNTED", 3)
    await bench.record(bench.acme, 5)
    assert (await bench.audit.backlog()).pending == 3


# --- verifying


async def test_an_untouched_log_has_no_faults(linked: ChainScene) -> None:
    findings, checked = await linked.verify()
    assert findings == []
    assert {one.chain: (one.links, one.head.sequence, one.forgotten) for one in checked} == {
        linked.acme: (5, 5, 0),
        linked.bolt: (3, 3, 0),
        PLATFORM_CHAIN: (2, 2, 0),
    }


async def test_entries_that_wait_are_no_fault(linked: ChainScene) -> None:
    await linked.record(linked.acme, 3)
    await linked.record(None, 1)
    assert await linked.faults() == []
    assert await linked.faults(linked.acme) == []
    assert await linked.faults(PLATFORM_CHAIN) == []


async def test_an_empty_log_has_no_faults(bench: ChainScene) -> None:
    assert await bench.verify() == ([], [])
    findings, (checked,) = await bench.verify(bench.acme)
    assert (findings, checked.links, checked.head) == ([], 0, ChainHead())


ALTERATIONS = {
    "action": "'role.deleted'",
    "actor_id": "'00000000-0000-7000-8000-00000000dead'",
    "impersonator_id": "'00000000-0000-7000-8000-00000000dead'",
    "target_type": "'user'",
    "target_id": "'somebody else'",
    "success": "not success",
    "details": "details || '{\"n\": 1000000000000000000000000000000000000000000000000000}'",
    "personal_digest": "sha256('')",
    "created_at": "created_at - interval '1 microsecond'",
}


@pytest.mark.parametrize("column", ALTERATIONS)
async def test_an_altered_entry_is_found(linked: ChainScene, column: str) -> None:
    entry = (await linked.chain(linked.acme))[2][1]
    await linked.tamper(f"update audit_entries set {column} = {ALTERATIONS[column]} where id = %(entry)s", entry=entry)
    found = [(finding.fault, finding.sequence, finding.entry) for finding in (await linked.verify())[0]]
    assert (Fault.ALTERED, 3, entry) in found
    assert set(found) <= {(Fault.ALTERED, 3, entry), (Fault.PERSONAL, 3, entry)}
    assert (Fault.ALTERED, 3) in await linked.faults(linked.acme)
    assert await linked.faults(linked.bolt) == []


# The id of the request stands beside the chained form, so entries from before it, and of older processes, verify as ever. Who may write to
# the table may change it unseen: it tells where to look, and proves nothing.
BESIDE = {"request_id": "gen_random_uuid()"}


@pytest.mark.parametrize("column", BESIDE)
async def test_a_column_beside_the_chain_says_nothing_to_it(linked: ChainScene, column: str) -> None:
    before = await linked.chain(linked.acme)
    await linked.tamper(f"update audit_entries set {column} = {BESIDE[column]} where id = %(entry)s", entry=before[2][1])
    with caused_by(linked.store.ids.new()):
        await linked.record(linked.acme, 2)
    assert await linked.link_all() == 2
    assert await linked.faults() == []
    assert (await linked.chain(linked.acme))[:5] == before


async def test_no_column_of_an_entry_is_left_out(linked: ChainScene) -> None:
    statement = "select attname from pg_attribute where attrelid = 'audit_entries'::regclass and attnum > 0 and not attisdropped"
    rows = await linked.store.query(statement)
    assert {row["attname"] for row in rows} == {*ALTERATIONS, *BESIDE, "id", "organization_id"}


async def test_an_entry_under_another_id_is_found(linked: ChainScene) -> None:
    entry = (await linked.chain(linked.acme))[2][1]
    for table, column in (("audit_entries", "id"), ("audit_links", "entry_id"), ("audit_personal", "entry_id")):
        await linked.tamper(f"update {table} set {column} = %(new)s where {column} = %(old)s", old=entry, new=UUID(int=9))
    assert await linked.faults() == [(Fault.ALTERED, 3)]


@pytest.mark.parametrize("time", ["infinity", "-infinity"])
async def test_a_time_beyond_all_times_is_found_and_stops_nobody(linked: ChainScene, time: str) -> None:
    entry = (await linked.chain(linked.acme))[2][1]
    await linked.tamper("update audit_entries set created_at = %(time)s where id = %(entry)s", entry=entry, time=time)
    assert await linked.faults() == [(Fault.ALTERED, 3)]
    assert await linked.faults(linked.acme) == [(Fault.ALTERED, 3)]


PERSONAL_ALTERATIONS = {
    "address": "'203.0.113.9'",
    "user_agent": "'curl'",
    "details": '\'{"name": "Mallory"}\'',
    "salt": "'\\x00'",
}


@pytest.mark.parametrize("column", PERSONAL_ALTERATIONS)
async def test_an_altered_personal_part_is_found(linked: ChainScene, column: str) -> None:
    entry = (await linked.chain(linked.acme))[1][1]
    await linked.tamper(
        f"update audit_personal set {column} = {PERSONAL_ALTERATIONS[column]} where entry_id = %(entry)s",
        entry=entry,
    )
    assert await linked.faults() == [(Fault.PERSONAL, 2)]


async def test_a_mask_put_to_an_address_is_found(linked: ChainScene) -> None:
    entry = (await linked.chain(linked.acme))[1][1]
    await linked.tamper("update audit_personal set address = set_masklen(address, 24) where entry_id = %(entry)s", entry=entry)
    assert await linked.faults() == [(Fault.PERSONAL, 2)]


async def test_a_personal_part_put_to_an_entry_that_had_none_is_found(bench: ChainScene) -> None:
    async with bench.store.unit_of_work() as uow:
        entry = await uow.record(Event("invitation.expired", SYSTEM, Target("invitation", "1"), bench.acme))
        await uow.commit()
    await bench.link_all()
    assert await bench.faults() == []
    await bench.tamper("insert into audit_personal (entry_id, user_agent, salt) values (%(entry)s, 'curl', '')", entry=entry)
    assert await bench.faults() == [(Fault.PERSONAL, 1)]


async def test_forgetting_a_personal_part_is_no_fault_and_is_counted(linked: ChainScene) -> None:
    await linked.store.query("delete from audit_personal where entry_id = %(entry)s", {"entry": (await linked.chain(linked.acme))[1][1]})
    findings, checked = await linked.verify()
    assert findings == []
    assert {one.chain: one.forgotten for one in checked} == {linked.acme: 1, linked.bolt: 0, PLATFORM_CHAIN: 0}


@pytest.mark.parametrize("sequence", [1, 3])
async def test_a_removed_entry_is_found_with_its_link_or_without(linked: ChainScene, sequence: int) -> None:
    entry = (await linked.chain(linked.acme))[sequence - 1][1]
    await linked.tamper("delete from audit_entries where id = %(entry)s", entry=entry)
    assert (Fault.MISSING, sequence) in await linked.faults()
    await linked.tamper("delete from audit_links where entry_id = %(entry)s", entry=entry)
    assert await linked.faults() == await linked.faults(linked.acme) == [(Fault.GAP, sequence)]


async def test_a_removed_link_leaves_a_gap_and_an_entry_in_no_chain(linked: ChainScene) -> None:
    entry = (await linked.chain(linked.acme))[1][1]
    await linked.tamper("delete from audit_links where entry_id = %(entry)s", entry=entry)
    findings, _ = await linked.verify()
    assert [(finding.fault, finding.sequence, finding.last, finding.entry) for finding in findings] == [
        (Fault.GAP, 2, 2, None),
        (Fault.LOOSE, None, None, entry),
    ]


async def test_several_missing_links_are_one_gap(linked: ChainScene) -> None:
    await linked.tamper("delete from audit_links where chain_id = %(chain)s and sequence between 2 and 4", chain=linked.acme)
    gap = (await linked.verify(linked.acme))[0][0]
    assert (gap.fault, gap.sequence, gap.last) == (Fault.GAP, 2, 4)


async def test_closing_the_gap_after_a_removed_entry_is_found(linked: ChainScene) -> None:
    entry = (await linked.chain(linked.acme))[2][1]
    await linked.tamper("delete from audit_entries where id = %(entry)s", entry=entry)
    await linked.tamper("delete from audit_links where entry_id = %(entry)s", entry=entry)
    await linked.tamper("update audit_links set sequence = sequence - 1 where chain_id = %(chain)s and sequence > 3", chain=linked.acme)
    assert await linked.faults() == [(Fault.ALTERED, 3), (Fault.ALTERED, 4)]


@pytest.mark.parametrize("with_their_digests", [True, False])
async def test_two_entries_that_changed_places_are_found(linked: ChainScene, with_their_digests: bool) -> None:
    digests = await linked.store.query("select sequence, digest from audit_links where chain_id = %(chain)s", {"chain": linked.acme})
    for old, new in ((2, 100), (3, 2), (100, 3)):
        await linked.tamper(_MOVE_LINK, chain=linked.acme, old=old, new=new)
    if not with_their_digests:
        for row in digests:
            await linked.tamper(_SET_DIGEST, chain=linked.acme, **row)
    assert [sequence for _, sequence in await linked.faults()][:2] == [2, 3]
    assert {fault for fault, _ in await linked.faults()} == {Fault.ALTERED}


_MOVE_LINK = "update audit_links set sequence = %(new)s where chain_id = %(chain)s and sequence = %(old)s"
_SET_DIGEST = "update audit_links set digest = %(digest)s where chain_id = %(chain)s and sequence = %(sequence)s"


async def test_an_altered_digest_is_found(linked: ChainScene) -> None:
    await linked.tamper("update audit_links set digest = sha256(digest) where chain_id = %(chain)s and sequence = 5", chain=linked.acme)
    assert await linked.faults() == [(Fault.ALTERED, 5)]


@pytest.mark.parametrize("digest", [b"", b"short", b"x" * 1000])
async def test_an_impossible_digest_is_found(linked: ChainScene, digest: bytes) -> None:
    await linked.tamper("update audit_links set digest = %(d)s where chain_id = %(c)s and sequence = 5", c=linked.acme, d=digest)
    assert await linked.faults() == [(Fault.ALTERED, 5)]


async def test_an_entry_put_in_without_a_link_is_found(linked: ChainScene) -> None:
    for chain in (linked.acme, None):
        await linked.tamper(_COPY, organization=chain)
    assert await linked.faults() == [(Fault.LOOSE, None)] * 2
    assert await linked.faults(linked.acme) == await linked.faults(PLATFORM_CHAIN) == [(Fault.LOOSE, None)]
    assert await linked.faults(linked.bolt) == []


_COPY = """
    insert into audit_entries (id, organization_id, action, target_type, target_id, success, details, created_at)
    values (gen_random_uuid(), %(organization)s, 'user.removed', 'user', '1', true, '{}', now())
"""


@pytest.mark.parametrize(("sequence", "fault"), [(6, Fault.ALTERED), (0, Fault.SURPLUS), (1000, Fault.GAP), (2**63 - 1, Fault.GAP)])
async def test_an_entry_put_in_with_a_link_of_its_own_is_found(fresh_linked: ChainScene, sequence: int, fault: Fault) -> None:
    await fresh_linked.store.query("alter table audit_links drop constraint audit_links_sequence_check")
    await fresh_linked.tamper(_COPY, organization=fresh_linked.acme)
    await fresh_linked.tamper(_LINK_LOOSE, sequence=sequence)
    assert (fault, sequence if fault is not Fault.GAP else 6) in await fresh_linked.faults()


_LINK_LOOSE = """
    insert into audit_links (chain_id, sequence, entry_id, digest)
    select organization_id, %(sequence)s, id, sha256('guessed')
      from audit_entries
     where action = 'user.removed'
"""


@pytest.fixture
async def fresh_linked(fresh_store: Store) -> ChainScene:
    """The same on a database of its own, whose constraints may go."""
    chains = PostgresAuditChains(fresh_store.pool)
    secrets = PostgresServerSecrets(fresh_store.pool, fresh_store.keyring, fresh_store.clock)
    audit = Audit(PostgresAuditLog(fresh_store.pool), chains, secrets)
    bench = ChainScene(fresh_store, chains, audit, OrganizationId(fresh_store.ids.new()), OrganizationId(fresh_store.ids.new()))
    await bench.record(bench.acme, 5)
    await bench.link_all()
    return bench


async def test_a_link_before_the_beginning_hides_nothing(fresh_linked: ChainScene) -> None:
    await fresh_linked.store.query("alter table audit_links drop constraint audit_links_sequence_check")
    await fresh_linked.tamper(_COPY, organization=fresh_linked.acme)
    await fresh_linked.tamper(_LINK_LOOSE, sequence=-(2**63))
    assert await fresh_linked.faults() == await fresh_linked.faults(fresh_linked.acme) == [(Fault.LOOSE, None)]


async def test_a_link_in_the_place_of_another_hides_nothing(fresh_linked: ChainScene, monkeypatch: pytest.MonkeyPatch) -> None:
    await fresh_linked.store.query("alter table audit_links drop constraint audit_links_pkey")
    await fresh_linked.tamper(_COPY, organization=fresh_linked.acme)
    await fresh_linked.tamper(_LINK_LOOSE, sequence=3)
    for at_once in (2, 3, 4000):  # the two on both sides of where one part ends and the next begins, and within one
        monkeypatch.setattr(audit_usecase, "READ_AT_ONCE", at_once)
        faults = await fresh_linked.faults()
        assert (Fault.SURPLUS, 3) in faults
        assert await fresh_linked.faults(fresh_linked.acme) == faults


async def test_an_entry_moved_to_another_organization_is_found(linked: ChainScene) -> None:
    entry = (await linked.chain(linked.acme))[4][1]
    await linked.tamper("update audit_entries set organization_id = %(bolt)s where id = %(entry)s", bolt=linked.bolt, entry=entry)
    assert await linked.faults() == [(Fault.FOREIGN, 5)]
    give = "update audit_links set chain_id = %(bolt)s, sequence = 4 where entry_id = %(entry)s"
    await linked.tamper(give, bolt=linked.bolt, entry=entry)
    # Acme's chain ends one earlier now, which only a head noted before can tell; bolt's has what was never its own.
    assert await linked.faults() == [(Fault.ALTERED, 4)]


async def test_a_whole_chain_given_to_another_organization_is_found(linked: ChainScene) -> None:
    other = linked.store.ids.new()
    for table, column in (("audit_entries", "organization_id"), ("audit_links", "chain_id")):
        statement = f"update {table} set {column} = %(other)s where {column} = %(acme)s"
        await linked.tamper(statement, other=other, acme=linked.acme)
    assert await linked.faults() == [(Fault.ALTERED, sequence) for sequence in range(1, 6)]


async def test_an_entry_that_waits_for_a_chain_that_is_not_its_own_is_found_and_gets_its_own(linked: ChainScene) -> None:
    (entry,) = await linked.record(linked.acme)
    await linked.tamper("update audit_pending set chain_id = %(bolt)s where entry_id = %(entry)s", bolt=linked.bolt, entry=entry)
    assert await linked.faults() == [(Fault.STRAY, None)]
    await linked.link_all()
    assert (await linked.chain(linked.acme))[-1] == (6, entry)
    assert await linked.faults() == []


async def test_an_entry_taken_from_those_that_wait_is_found(linked: ChainScene) -> None:
    (entry,) = await linked.record(linked.acme)
    await linked.tamper("delete from audit_pending where entry_id = %(entry)s", entry=entry)
    findings, _ = await linked.verify()
    assert [(finding.fault, finding.entry, finding.chain) for finding in findings] == [(Fault.LOOSE, entry, linked.acme)]


async def test_a_chain_that_was_cut_off_is_found_by_the_head_that_was_noted(linked: ChainScene) -> None:
    head = (await linked.verify(linked.acme))[1][0].head
    assert await linked.faults(linked.acme, noted=head) == []
    await linked.tamper(_CUT_LINKS, chain=linked.acme)
    await linked.tamper(_CUT_ENTRIES, chain=linked.acme)
    assert await linked.faults() == await linked.faults(linked.acme) == []  # nothing in the database tells
    (found,) = (await linked.verify(linked.acme, noted=head))[0]
    assert (found.fault, found.sequence, found.last) == (Fault.CUT_OFF, 3, 5)
    # What is written from now on makes the chain as long as it was, and does not make it the same.
    await linked.record(linked.acme, 4)
    await linked.link_all()
    assert await linked.faults(linked.acme) == []
    assert await linked.faults(linked.acme, noted=head) == [(Fault.REPLACED, 5)]


_CUT_LINKS = "delete from audit_links where chain_id = %(chain)s and sequence > 3"
_CUT_ENTRIES = "delete from audit_entries where organization_id = %(chain)s and not exists (select from audit_links where entry_id = id)"


async def test_a_chain_that_is_gone_is_found_by_its_entries_or_by_the_head_that_was_noted(linked: ChainScene) -> None:
    head = (await linked.verify(linked.acme))[1][0].head
    await linked.tamper("delete from audit_links where chain_id = %(chain)s", chain=linked.acme)
    assert await linked.faults() == [(Fault.LOOSE, None)] * 5
    await linked.tamper("delete from audit_entries where organization_id = %(chain)s", chain=linked.acme)
    assert await linked.faults() == []
    assert await linked.faults(linked.acme, noted=head) == [(Fault.CUT_OFF, 0)]


async def test_a_chain_that_grew_since_its_head_was_noted_is_fine(linked: ChainScene) -> None:
    head = (await linked.verify(linked.acme))[1][0].head
    await linked.record(linked.acme, 3)
    await linked.link_all()
    assert await linked.faults(linked.acme, noted=head) == []


async def test_a_chain_made_again_under_another_key_is_found(linked: ChainScene) -> None:
    await linked.tamper("delete from audit_links")
    statement = "insert into audit_pending (entry_id, chain_id) select id, coalesce(organization_id, %(platform)s) from audit_entries"
    await linked.tamper(statement, platform=PLATFORM_CHAIN)
    assert await linked.chains.link(KEY, 100) == 10
    assert {fault for fault, _ in await linked.faults()} == {Fault.ALTERED}
    assert len(await linked.faults()) == 10


@pytest.mark.parametrize("at_once", [1, 2, 3, 5])
async def test_it_does_not_matter_how_much_is_read_at_a_time(linked: ChainScene, monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(audit_usecase, "READ_AT_ONCE", at_once)
    monkeypatch.setattr(audit, "_READ_AT_ONCE", at_once)
    findings, checked = await linked.verify()
    assert findings == []
    assert sorted(one.links for one in checked) == [2, 3, 5]
    await linked.tamper("delete from audit_links where chain_id = %(chain)s and sequence in (1, 5)", chain=linked.acme)
    expected = [(Fault.GAP, 1), (Fault.LOOSE, None), (Fault.LOOSE, None)]
    assert await linked.faults() == await linked.faults(linked.acme) == expected


def _told_to(findings: list[ChainFinding]) -> Callable[[str, ChainFinding], None]:
    return lambda _name, finding: findings.append(finding)


@pytest.mark.parametrize("at_once", [1, 2])
async def test_it_does_not_matter_how_many_parts_are_read_at_once(
    fresh_linked: ChainScene, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    await fresh_linked.record(fresh_linked.acme, 8)
    await fresh_linked.link_all()
    await fresh_linked.store.query(
        "delete from audit_personal where entry_id = %(entry)s", {"entry": (await fresh_linked.chain(fresh_linked.acme))[3][1]}
    )

    async def same() -> list[Fault]:
        outcomes = []
        for size, readers in ((4000, 1), (at_once, 1), (at_once, 2), (at_once, 4)):
            monkeypatch.setattr(audit_usecase, "READ_AT_ONCE", size)
            findings: list[ChainFinding] = []
            checked: list[CheckedChain] = []
            told = _told_to(findings)
            await fresh_linked.audit.verify(told, checked.append, noted=ChainHead(13, b"x" * 32), readers=readers)
            outcomes.append((findings, checked))
        assert all(outcome == outcomes[0] for outcome in outcomes)
        return [finding.fault for finding in outcomes[0][0] if finding.chain == fresh_linked.acme]

    assert await same() == [Fault.REPLACED]
    await fresh_linked.store.query("alter table audit_links drop constraint audit_links_pkey")
    await fresh_linked.tamper(_COPY, organization=fresh_linked.acme)
    await fresh_linked.tamper(_LINK_LOOSE, sequence=3)
    assert Fault.SURPLUS in await same()
    for sequence in (13, 9, 8, 5, 1, 4, 6, 7):  # an altered one, then its absence: at the ends of parts, within them, and several in a row
        place = {"chain": fresh_linked.acme, "sequence": sequence}
        await fresh_linked.tamper("update audit_links set digest = 'x' where chain_id = %(chain)s and sequence = %(sequence)s", **place)
        assert await same()
        await fresh_linked.tamper("delete from audit_links where chain_id = %(chain)s and sequence = %(sequence)s", **place)
        assert {Fault.GAP, Fault.CUT_OFF} & {*await same()}


async def test_a_chain_that_grows_between_two_parts_has_no_gap(linked: ChainScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_usecase, "READ_AT_ONCE", 2)
    parts = linked.chains.parts
    asked = []

    async def late(places: Sequence[tuple[OrganizationId, int]], most: int) -> Sequence[Sequence[StoredLink]]:
        asked.append(len(places))
        if len(asked) == 2:
            early = await parts(places[:2], most)
            await linked.record(linked.acme, 4)
            await linked.link_all()
            return [*early, *await parts(places[2:], most)]
        return await parts(places, most)

    monkeypatch.setattr(linked.chains, "parts", late)
    findings: list[ChainFinding] = []
    checked: list[CheckedChain] = []
    await linked.audit.verify(lambda _name, finding: findings.append(finding), checked.append, only=linked.acme, readers=4)
    assert (findings, checked[0].links, asked[:2]) == ([], 9, [2, 4])


@pytest.mark.parametrize("readers", [1, 2, 3, 4])
async def test_all_chains_have_their_turn_however_many_are_asked_for_at_once(
    linked: ChainScene, monkeypatch: pytest.MonkeyPatch, readers: int
) -> None:
    monkeypatch.setattr(audit_usecase, "CHAINS_AT_ONCE", 2)
    for number in range(4):
        await linked.record(OrganizationId(UUID(int=number + 1)))
    await linked.link_all()
    checked: list[CheckedChain] = []
    await linked.audit.verify(_nothing_is_found, checked.append, readers=readers)
    assert len({one.chain for one in checked}) == len(checked) == 7
    assert [one.chain for one in checked] == sorted(one.chain for one in checked)


def _nothing_is_found(_name: str, finding: ChainFinding) -> None:
    raise AssertionError(finding)


async def test_a_database_that_fails_several_readers_is_one_failure(linked: ChainScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "LINKS", "select pg_terminate_backend(pg_backend_pid())")
    with pytest.raises(Unavailable):
        await linked.chains.parts([(linked.acme, 0), (linked.acme, 2), (linked.acme, 4)], 2)


async def test_of_loose_entries_not_all_are_told(linked: ChainScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_usecase, "MOST_UNCHAINED", 3)
    await linked.tamper("delete from audit_links where chain_id = %(chain)s", chain=linked.acme)
    assert await linked.faults() == [(Fault.LOOSE, None)] * 3


async def test_whether_a_personal_part_is_there_is_told(linked: ChainScene) -> None:
    async with linked.store.unit_of_work() as uow:
        await uow.record(Event("invitation.expired", SYSTEM, Target("invitation", "1"), linked.acme))
        await uow.commit()
    await linked.link_all()
    await linked.store.query("delete from audit_personal where entry_id = %(entry)s", {"entry": (await linked.chain(linked.acme))[0][1]})
    links = await linked.chains.links(linked.acme, 0, 100)
    assert [link.personal for link in links] == [PersonalPart.FORGOTTEN, *[PersonalPart.INTACT] * 4, PersonalPart.NONE]

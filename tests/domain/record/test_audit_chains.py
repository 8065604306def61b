"""Chains of the audit log: the data that a link covers, the next link, and the faults that a verification finds."""

import hmac
from hashlib import sha256
from uuid import UUID

import pytest

from core.domain.errors import BadRequest
from core.domain.identifiers import AuditEntryId, OrganizationId
from core.domain.record.audit import (
    PLATFORM_CHAIN,
    ChainCheck,
    ChainFinding,
    ChainHead,
    Fault,
    PersonalPart,
    StoredLink,
    Unlinked,
    link_digest,
    linked,
)
from core.frozen import replace

KEY = b"k" * 32
ACME, BOLT = OrganizationId(UUID(int=1)), OrganizationId(UUID(int=2))


def entry(number: int) -> AuditEntryId:
    return AuditEntryId(UUID(int=1000 + number))


def stored(count: int, chain: OrganizationId = ACME) -> list[StoredLink]:
    links = linked(KEY, {}, [Unlinked(chain, entry(number), f"[{number}]") for number in range(1, count + 1)])
    return [
        StoredLink(chain, link.sequence, link.entry, link.digest, f"[{link.sequence}]", belongs=True, personal=PersonalPart.NONE)
        for link in links
    ]


def walk(links: list[StoredLink], noted: ChainHead | None = None) -> list[ChainFinding]:
    check = ChainCheck(KEY, ACME, noted)
    return [*(finding for link in links for finding in check.take(link)), *check.end()]


def test_a_digest_is_what_the_documentation_says() -> None:
    before = ChainHead(41, b"p" * 32)
    covered = b"p" * 32 + ACME.bytes + (42).to_bytes(8, "big") + '["é"]'.encode()
    assert link_digest(KEY, ACME, before, '["é"]') == hmac.digest(KEY, covered, sha256)


def test_a_digest_depends_on_everything_that_it_covers() -> None:
    before = ChainHead(1, b"p" * 32)
    digests = {
        link_digest(KEY, ACME, before, "[1]"),
        link_digest(b"x" * 32, ACME, before, "[1]"),
        link_digest(KEY, BOLT, before, "[1]"),
        link_digest(KEY, ACME, ChainHead(2, before.digest), "[1]"),
        link_digest(KEY, ACME, ChainHead(1, b"q" * 32), "[1]"),
        link_digest(KEY, ACME, before, "[2]"),
    }
    assert len(digests) == 6


def test_chains_begin_at_one_and_go_on_where_they_ended_each_by_itself() -> None:
    heads = {BOLT: ChainHead(7, b"b" * 32)}
    links = linked(KEY, heads, [Unlinked(chain, entry(number), "[]") for number, chain in enumerate((ACME, BOLT, ACME, BOLT))])
    assert [(link.chain, link.sequence) for link in links] == [(ACME, 1), (BOLT, 8), (ACME, 2), (BOLT, 9)]
    assert links[1].digest == link_digest(KEY, BOLT, heads[BOLT], "[]")
    assert links[2].digest == link_digest(KEY, ACME, ChainHead(1, links[0].digest), "[]")
    assert heads == {BOLT: ChainHead(7, b"b" * 32)}


def test_a_head_is_written_and_read() -> None:
    head = ChainHead(1841, bytes(range(32)))
    assert str(head) == f"1841:{bytes(range(32)).hex()}"
    assert ChainHead.parse(f" {str(head).upper()}\n") == head
    assert ChainHead.parse(str(ChainHead())) == ChainHead()


@pytest.mark.parametrize(
    "text", ["", "5", "5:", f"x:{'0' * 64}", f"-1:{'0' * 64}", f"5:{'0' * 63}", f"5:{'0' * 65}", f"5:{'g' * 64}", f"{'9' * 19}:{'0' * 64}"]
)
def test_what_is_no_head_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        ChainHead.parse(text)


def test_an_untouched_chain_has_no_faults() -> None:
    assert walk(stored(5)) == walk([]) == []
    assert walk(stored(5), ChainHead(3, stored(5)[2].digest)) == []
    assert walk(stored(3, PLATFORM_CHAIN))[0].fault is Fault.ALTERED  # not this chain's


def test_the_walk_keeps_count() -> None:
    links = stored(3)
    check = ChainCheck(KEY, ACME)
    for link in (links[0], replace(links[1], personal=PersonalPart.FORGOTTEN), replace(links[2], personal=PersonalPart.INTACT)):
        assert check.take(link) == []
    assert (check.links, check.forgotten, check.head) == (3, 1, ChainHead(3, links[2].digest))


def test_each_fault_is_told_by_itself() -> None:
    links = stored(9)
    links[1] = replace(links[1], content="[altered]")
    links[3] = replace(links[3], content=None)
    links[4] = replace(links[4], belongs=False)
    links[5] = replace(links[5], personal=PersonalPart.ALTERED)
    del links[7]
    assert walk(links) == [
        ChainFinding(ACME, Fault.ALTERED, 2, entry(2)),
        ChainFinding(ACME, Fault.MISSING, 4, entry(4)),
        ChainFinding(ACME, Fault.FOREIGN, 5, entry(5)),
        ChainFinding(ACME, Fault.PERSONAL, 6, entry(6)),
        ChainFinding(ACME, Fault.GAP, 8, last=8),
    ]


def test_a_link_in_a_place_that_is_taken_is_surplus_and_changes_nothing() -> None:
    links = stored(3)
    links.insert(2, replace(links[1], entry=entry(99), digest=b"guessed"))
    links.insert(0, replace(links[0], sequence=0, entry=entry(98)))
    assert walk(links) == [ChainFinding(ACME, Fault.SURPLUS, 0, entry(98)), ChainFinding(ACME, Fault.SURPLUS, 2, entry(99))]


def test_after_a_gap_the_walk_goes_on() -> None:
    links = stored(8)
    links[6] = replace(links[6], content="[altered]")
    assert walk(links[3:]) == [ChainFinding(ACME, Fault.GAP, 1, last=3), ChainFinding(ACME, Fault.ALTERED, 7, entry(7))]


def test_a_chain_that_does_not_reach_its_noted_head_or_is_another_is_told() -> None:
    links = stored(5)
    head = ChainHead(5, links[4].digest)
    assert walk(links[:3], head) == [ChainFinding(ACME, Fault.CUT_OFF, 3, last=5)]
    assert walk([], head) == [ChainFinding(ACME, Fault.CUT_OFF, 0, last=5)]
    assert walk(links, ChainHead(3, b"x" * 32)) == [ChainFinding(ACME, Fault.REPLACED, 3, entry(3))]

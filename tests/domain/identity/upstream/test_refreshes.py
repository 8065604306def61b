"""What the metadata of a directory change: which certificates count, which wait, and which go."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from core.domain.errors import BadRequest, NotFound
from core.domain.identity.upstream.connections import (
    CertificateSource,
    KeptCertificate,
    SamlChange,
    SamlSettings,
    SeenMetadata,
)
from core.domain.identity.upstream.connections import (
    tested_digest as digest_of,
)
from core.domain.identity.upstream.refreshes import (
    KEPT_WHILE_MISSING,
    AskedBecause,
    Read,
    RefreshFault,
    approved,
    declined,
    directory_end,
    taken,
    way_taken,
)
from core.domain.identity.upstream.saml.assertions import MOST_CERTIFICATES, DirectoryCertificate, DirectoryEndpoint, DirectoryMetadata
from core.domain.outbound import destination
from core.domain.saml import SamlBinding
from core.frozen import replace

NOW: Final = datetime(2026, 6, 1, 12, tzinfo=UTC)
ENTITY: Final = "https://login.acme.example/saml"
DAY: Final = timedelta(days=1)


def certificate(name: str, *, begins: float = -100, ends: float = 100) -> DirectoryCertificate:
    """`begins` and `ends` are days from now."""
    return DirectoryCertificate(
        pem=f"pem {name}", fingerprint=name, subject=name, valid_from=NOW + begins * DAY, valid_until=NOW + ends * DAY
    )


def kept(name: str, *, ends: float = 100, missing: float | None = None, hand: bool = False, listed: bool = True) -> KeptCertificate:
    one = certificate(name, ends=ends)
    return KeptCertificate(
        pem=one.pem,
        fingerprint=name,
        subject=name,
        valid_from=one.valid_from,
        valid_until=one.valid_until,
        source=CertificateSource.HAND if hand else CertificateSource.METADATA,
        added_at=NOW - 100 * DAY,
        listed_at=NOW - DAY if listed else None,
        missing_since=None if missing is None else NOW - missing * DAY,
    )


def read(
    *names: str | DirectoryCertificate,
    signed_by: str | None = None,
    because: AskedBecause | None = None,
    entity: str = ENTITY,
    until: float | None = None,
) -> Read:
    metadata = DirectoryMetadata(
        entity_id=entity,
        sign_in=[DirectoryEndpoint(SamlBinding.REDIRECT, "https://login.acme.example/sso")],
        signing_certificates=[certificate(one) if isinstance(one, str) else one for one in names],
        valid_until=None if until is None else NOW + until * DAY,
        signed_by=signed_by,
    )
    return Read(metadata=metadata, because=because)


def settings(*certificates: KeptCertificate, **more: Any) -> SamlSettings:
    return SamlSettings(metadata_url="https://login.acme.example/metadata", certificates=certificates, **more)


def names(certificates: Any) -> list[str]:
    return [one.fingerprint for one in certificates]


HTTP, HOST, UNSIGNED = AskedBecause.NOT_ENCRYPTED, AskedBecause.OTHER_HOST, AskedBecause.NO_LONGER_SIGNED
WAS_SIGNED: Final = SeenMetadata(was_signed=True)
A, B = kept("a"), kept("b")
# What is known, what came, what counts afterwards, what waits, and why.
WAYS: Final[list[tuple[str, SamlSettings, Read, list[str], list[str], AskedBecause | None]]] = [
    ("over https from the host that was set", settings(A), read("a", "n"), ["a", "n"], [], None),
    ("signed by a known one, over http", settings(A), read("a", "n", signed_by="a", because=HTTP), ["a", "n"], [], None),
    ("signed by a known one, from another host", settings(A), read("n", signed_by="a", because=HOST), ["a", "n"], [], None),
    ("over http", settings(A), read("a", "n", because=HTTP), ["a"], ["n"], HTTP),
    ("from another host", settings(A), read("a", "n", because=HOST), ["a"], ["n"], HOST),
    ("unsigned where signed before", settings(A, metadata=WAS_SIGNED), read("a", "n"), ["a"], ["n"], UNSIGNED),
    ("signed, and signed before", settings(A, metadata=WAS_SIGNED), read("a", "n", signed_by="a"), ["a", "n"], [], None),
    ("signed by nobody known", settings(A), read("a", "n", signed_by="n", because=HTTP), ["a"], ["n"], HTTP),
    ("signed by one that has ended", settings(kept("a", ends=-1), B), read("b", "n", signed_by="a", because=HTTP), ["a", "b"], ["n"], HTTP),
    ("by one that vanished", settings(kept("a", missing=1), B), read("b", "n", signed_by="a", because=HTTP), ["a", "b"], ["n"], HTTP),
    ("one that waits, and is signed now", settings(A, waiting=(kept("n"),)), read("a", "n", signed_by="a"), ["a", "n"], [], None),
    ("one that waits, and waits on", settings(A, waiting=(kept("n"),)), read("a", "n", because=HTTP), ["a"], ["n"], HTTP),
    ("one that waits, and is gone", settings(A, waiting=(kept("n"),)), read("a", because=HTTP), ["a"], [], HTTP),
    ("one that was declined", settings(A, declined=("n",)), read("a", "n", because=HTTP), ["a"], [], HTTP),
    ("new ones that have ended", settings(A), read("a", certificate("n", ends=-1)), ["a"], [], None),
    ("a new one that is not valid yet", settings(A), read("a", certificate("n", begins=5)), ["a", "n"], [], None),
    ("one that has just vanished", settings(A, B), read("b"), ["a", "b"], [], None),
    ("one that was missing for a while", settings(kept("a", missing=6.9), B), read("b"), ["a", "b"], [], None),
    ("one that was missing for long", settings(kept("a", missing=7), B), read("b"), ["b"], [], None),
    ("one that comes back", settings(kept("a", missing=8), B), read("a", "b"), ["a", "b"], [], None),
    ("one that vanished from what anybody may write", settings(kept("a", missing=8), B), read("b", because=HTTP), ["a", "b"], [], HTTP),
    ("one that has ended", settings(kept("a", ends=-1), B), read(certificate("a", ends=-1), "b"), ["b"], [], None),
    ("the last one, which has ended", settings(kept("a", ends=-1)), read("a"), ["a"], [], None),
    ("the last good one, missing for long", settings(kept("a", missing=8)), read(certificate("n", begins=5)), ["a", "n"], [], None),
    ("one by hand, which they never had", settings(kept("a", hand=True, listed=False), B), read("b"), ["a", "b"], [], None),
    ("one by hand, missing for long", settings(kept("a", hand=True, missing=8), B), read("b"), ["a", "b"], [], None),
]


@pytest.mark.parametrize(("known", "came", "counts", "waits", "because"), [one[1:] for one in WAYS], ids=[one[0] for one in WAYS])
def test_certificates_count_at_once_or_wait(
    known: SamlSettings, came: Read, counts: list[str], waits: list[str], because: AskedBecause | None
) -> None:
    change = taken(known, ENTITY, came, NOW)
    assert (change.fault, names(change.settings.certificates), names(change.settings.waiting), change.because) == (
        None,
        counts,
        waits,
        because,
    )
    before = names(known.certificates)
    assert names(change.added) == [one for one in counts if one not in before]
    assert names(change.removed) == [one for one in before if one not in counts]
    assert names(change.asked) == [one for one in waits if one not in names(known.waiting)]
    # A second look at the same metadata changes nothing more.
    again = taken(change.settings, ENTITY, came, NOW)
    assert [*again.added, *again.removed, *again.asked] == []
    assert (names(again.settings.certificates), names(again.settings.waiting)) == (counts, waits)


FAULTS: Final = {
    "another entity": (settings(A), read("n", entity="https://evil.example"), RefreshFault.OTHER_ENTITY),
    "another entity, signed": (settings(A), read("n", entity=f"{ENTITY}/", signed_by="a"), RefreshFault.OTHER_ENTITY),
    "ended": (settings(A), read("n", until=0), RefreshFault.ENDED),
    "too many": (settings(A), read(*(f"n{number}" for number in range(MOST_CERTIFICATES))), RefreshFault.TOO_MANY),
}


@pytest.mark.parametrize(("known", "came", "fault"), FAULTS.values(), ids=FAULTS)
def test_what_does_not_count_changes_nothing(known: SamlSettings, came: Read, fault: RefreshFault) -> None:
    change = taken(known, ENTITY, came, NOW)
    assert (change.fault, change.settings) == (fault, known)


def test_one_that_vanishes_goes_after_a_week_of_looks() -> None:
    known = settings(A, B)
    for day in range(KEPT_WHILE_MISSING.days):
        known = taken(known, ENTITY, read("b"), NOW + day * DAY).settings
        assert names(known.certificates) == ["a", "b"], day
    assert names(taken(known, ENTITY, read("b"), NOW + KEPT_WHILE_MISSING).settings.certificates) == ["b"]


def test_metadata_of_an_hour_say_until_when_and_whether_they_were_signed() -> None:
    assert taken(settings(A), ENTITY, read("a", signed_by="a", until=3), NOW).settings.metadata == SeenMetadata(
        valid_until=NOW + 3 * DAY, was_signed=True
    )
    # Metadata that anybody may have written do not take that away.
    signed = settings(A, metadata=WAS_SIGNED)
    assert taken(signed, ENTITY, read("a", because=HTTP), NOW).settings.metadata == WAS_SIGNED


def test_at_most_as_many_wait_as_may_count() -> None:
    many = [f"n{number}" for number in range(MOST_CERTIFICATES + 5)]
    assert len(taken(settings(A), ENTITY, read(*many, because=HTTP), NOW).settings.waiting) == MOST_CERTIFICATES


STATIONS: Final = {
    "https://a.example/m": None,
    "https://a.example/m https://a.example/n": None,
    "https://a.example/m https://a.example:8443/n": HOST,
    "https://a.example/m https://b.example/m": HOST,
    "https://a.example/m https://b.example/m https://a.example/n": HOST,
    "http://a.example/m": HTTP,
    "http://a.example/m https://a.example/m": HTTP,
    "https://a.example/m http://a.example/m https://a.example/m": HTTP,
}


@pytest.mark.parametrize(("way", "because"), STATIONS.items())
def test_the_way_decides(way: str, because: AskedBecause | None) -> None:
    assert way_taken([destination(one) for one in way.split()]) is because


def test_owners_decide_about_one_that_waits() -> None:
    waiting = settings(A, waiting=(kept("n"), kept("m")))
    yes, no = approved(waiting, "n"), declined(waiting, "n")
    assert (names(yes.certificates), names(yes.waiting), yes.declined) == (["a", "n"], ["m"], ())
    assert (names(no.certificates), names(no.waiting), no.declined) == (["a"], ["m"], ("n",))
    for decide in (approved, declined):
        with pytest.raises(NotFound):
            decide(waiting, "a")
        with pytest.raises(NotFound):
            decide(yes, "n")
    full = settings(*(kept(f"k{number}") for number in range(MOST_CERTIFICATES)), waiting=(kept("n"),))
    with pytest.raises(BadRequest):
        approved(full, "n")


def test_the_last_end_counts() -> None:
    assert directory_end(settings(kept("a", ends=5), kept("b", ends=3))) == NOW + 5 * DAY
    assert directory_end(settings()) is None


def test_what_waits_is_nothing_that_a_test_is_about() -> None:
    before = settings(A)
    after = replace(before, waiting=(B,), declined=("c",), metadata=WAS_SIGNED)
    assert digest_of({}, before, None) == digest_of({}, after, None)
    assert digest_of({}, before, None) != digest_of({}, settings(A, B), None)


def test_a_change_by_hand_keeps_what_waits_until_the_address_changes() -> None:
    before = settings(A, waiting=(B,), declined=("c",), metadata=WAS_SIGNED)
    assert SamlChange(slo_url="https://login.acme.example/slo").applied(before, NOW).waiting == (B,)
    added = SamlChange(certificates=(certificate("a"), certificate("b"))).applied(before, NOW)
    assert (names(added.certificates), added.waiting, added.declined) == (["a", "b"], (), ("c",))
    moved = SamlChange(metadata_url="https://other.example/m").applied(before, NOW)
    assert (moved.waiting, moved.declined, moved.metadata.was_signed) == ((), (), False)


@pytest.mark.parametrize("because", [HTTP, HOST])
def test_older_signed_metadata_bring_no_certificate_back_that_the_directory_took_out(because: AskedBecause) -> None:
    """Somebody on the way keeps the document from before: its signature is as good as ever."""
    had = settings(A, B)
    missing = taken(had, ENTITY, read("a", signed_by="a", because=because), NOW).settings
    without = taken(missing, ENTITY, read("a", signed_by="a", because=because), NOW + KEPT_WHILE_MISSING + DAY).settings
    assert ([one.fingerprint for one in without.certificates], without.gone) == (["a"], ("b",))
    later = NOW + KEPT_WHILE_MISSING + 2 * DAY
    old = taken(without, ENTITY, read("a", "b", signed_by="a", because=because), later)
    assert (old.added, [one.fingerprint for one in old.asked], old.because) == ((), ["b"], because)
    assert [one.fingerprint for one in old.settings.certificates] == ["a"]
    # An owner may say yes. By a way that nobody can change, the directory says so itself.
    assert {one.fingerprint for one in approved(old.settings, "b").certificates} == {"a", "b"}
    own = taken(without, ENTITY, read("a", "b", signed_by="a"), later)
    assert [one.fingerprint for one in own.added] == ["b"]
    # While it still counts, older metadata do not make it stay.
    again = taken(missing, ENTITY, read("a", "b", signed_by="a", because=because), NOW + DAY).settings
    assert [one.missing_since for one in again.certificates if one.fingerprint == "b"] == [NOW]


def test_what_went_is_no_part_of_what_was_tested() -> None:
    assert digest_of({}, settings(A), None) == digest_of({}, replace(settings(A), gone=("b",)), None)

"""Certificates of directories change without an outage: the daily look, the owners' decision, and the warnings."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

import pytest
import trio

from core.frozen import replace
from ops.stand_ins.saml import pair
from ports.outbound import Failure, OutboundAnswer, OutboundFailed
from tests.http.connections.refreshing import ADDRESS, NEW, NEXT, OLD, Answer, Refreshing, fingerprint, leading, metadata, refreshing_of
from tests.http.connections.scene import PATH, ConnectionScene
from tests.meanwhile import meanwhile
from tests.patience import PATIENCE
from tests.receiver import answering as answers
from tests.receiver import receiving


@pytest.fixture
async def refreshing(scene: ConnectionScene) -> Refreshing:
    return await refreshing_of(scene)


async def test_a_directory_changes_its_certificate_and_nobody_notices(refreshing: Refreshing) -> None:
    scene = refreshing.scene
    scene.verified()
    refreshing.publish(metadata(OLD, NEW))
    assert await refreshing.sweep() == 1
    old, new = fingerprint(OLD), fingerprint(NEW)
    assert await refreshing.certificates() == ([old, new], [])
    record = await refreshing.record()
    assert (record["state"], record["enabled"], record["metadata_fault"]) == ("active", True, "")
    assert record["metadata_read_at"] is not None
    # Both sign people in, and the page says which one signed.
    for name in (OLD, NEW):
        scene.directory.signer = pair(name)
        answer = await scene.arrive(scene.browser(), refreshing.provider)
        assert answer.status == 303, answer.body
    async with trio.open_nursery() as nursery:
        recorder = scene.postern.identity.connection_recorder
        await nursery.start(lambda task_status: recorder.run(task_status=task_status))
        with trio.fail_after(PATIENCE):
            while len(scene.people.rows("select from connection_certificates")) < 2:
                await trio.sleep(0.05)
        nursery.cancel_scope.cancel()
    signed = [one["signed_at"] for one in (await refreshing.record())["saml"]["certificates"]]
    assert len(signed) == 2
    assert None not in signed
    # The old one vanishes, counts for a week, and goes.
    refreshing.publish(metadata(NEW))
    for day in range(7):
        assert await refreshing.sweep() == 1
        assert (await refreshing.certificates())[0] == [old, new], day
        refreshing.later(days=1)
    await refreshing.sweep()
    assert await refreshing.certificates() == ([new], [])
    assert refreshing.events() == ["certificates.refreshed", "certificates.refreshed"]
    assert [mail for mail in await refreshing.mails() if mail.to == scene.speaker.email] == []
    assert refreshing.metrics.refreshed == {"read": 9}
    # What was tested is still tested: the connection may be turned off and activated again.
    assert (await refreshing.record())["state"] == "active"


# Where the metadata are, the pages there, and what becomes of the new certificate.
COUNTS: Final[Mapping[str, tuple[str, Mapping[str, Answer]]]] = {
    "https": (ADDRESS, {ADDRESS: metadata(OLD, NEW)}),
    "https, and a redirect on the same host": (ADDRESS, {ADDRESS: leading("/m"), "https://login.acme.example/m": metadata(OLD, NEW)}),
    "http, signed": ("http://login.acme.example/m", {"http://login.acme.example/m": metadata(OLD, NEW, signer=OLD)}),
    "another host, signed": (ADDRESS, {ADDRESS: leading("https://b.example/m"), "https://b.example/m": metadata(NEW, signer=OLD)}),
}
WAITS: Final[Mapping[str, tuple[str, Mapping[str, Answer], str]]] = {
    "http": ("http://login.acme.example/m", {"http://login.acme.example/m": metadata(OLD, NEW)}, "not_encrypted"),
    "http, signed by the new one": (
        "http://login.acme.example/m",
        {"http://login.acme.example/m": metadata(OLD, NEW, signer=NEW)},
        "not_encrypted",
    ),
    "another host": (ADDRESS, {ADDRESS: leading("https://b.example/m"), "https://b.example/m": metadata(OLD, NEW)}, "other_host"),
    "back to http": (
        ADDRESS,
        {ADDRESS: leading("http://login.acme.example/m"), "http://login.acme.example/m": metadata(NEW)},
        "not_encrypted",
    ),
    "signed before": (ADDRESS, {ADDRESS: metadata(OLD, NEW)}, "no_longer_signed"),
}


async def test_every_way_on_which_a_certificate_counts_or_waits(refreshing: Refreshing) -> None:
    people, old, new = refreshing.scene.people, fingerprint(OLD), fingerprint(NEW)
    (kept,) = people.rows("select saml::text from upstream_providers")

    def restore(address: str) -> None:
        set_address = "update upstream_providers set saml = %s::jsonb || jsonb_build_object('metadata_url', %s::text)"
        people.change(set_address, kept["saml"], address)

    for name, (address, pages) in COUNTS.items():
        refreshing.outbound.pages = dict(pages)
        restore(address)
        await refreshing.sweep()
        assert await refreshing.certificates() == ([old, new], []), name
    assert await refreshing.mails() == []
    for name, (address, pages, why) in WAITS.items():
        refreshing.outbound.pages = dict(pages)
        restore(address)
        if name == "signed before":
            people.change("""update upstream_providers set saml = saml || '{"metadata": {"was_signed": true}}'""")
        await refreshing.sweep()
        assert await refreshing.certificates() == ([old], [new]), name
        (mail,) = await refreshing.mails()
        assert (mail.to, new in mail.text, refreshing.provider in mail.text) == (refreshing.scene.speaker.email, True, True), name
        assert refreshing.scene.audited("organization.upstream_provider.certificates.waiting")[-1]["details"]["reason"] == why, name
        # Owners are asked once.
        await refreshing.sweep()
        assert await refreshing.mails() == [], name
        assert (await refreshing.record())["state"] == "active"


async def test_an_owner_approves_or_declines(refreshing: Refreshing) -> None:
    scene, new = refreshing.scene, fingerprint(NEW)
    scene.people.change("""update upstream_providers set saml = saml || '{"metadata": {"was_signed": true}}'""")
    refreshing.publish(metadata(OLD, NEW, NEXT))
    await refreshing.sweep()
    place = f"{PATH}/{refreshing.provider}/certificate/waiting"
    assert [one["todo"] for one in (await scene.request("GET", "/api/organizations/acme/todos")).json()] == ["connections"]
    scene.directory.signer = pair(NEW)
    scene.verified()
    assert (await scene.arrive(scene.browser(), refreshing.provider)).status != 200
    (await scene.request("POST", f"{place}/{new}")).ok()
    (await scene.request("DELETE", f"{place}/{fingerprint(NEXT)}")).ok()
    assert await refreshing.certificates() == ([fingerprint(OLD), new], [])
    assert refreshing.events()[-2:] == ["certificates.approved", "certificates.declined"]
    record = await refreshing.record()
    assert (record["state"], record["enabled"]) == ("active", True)
    assert (await scene.request("GET", "/api/organizations/acme/todos")).json() == []
    # What was decided is not asked again, and cannot be decided again.
    await refreshing.sweep()
    assert await refreshing.certificates() == ([fingerprint(OLD), new], [])
    for method in ("POST", "DELETE"):
        assert (await scene.request(method, f"{place}/{new}")).status == 404
    answer = await scene.arrive(scene.browser(), refreshing.provider)
    assert answer.status == 303
    # Others cannot decide: not an administrator, not another organization.
    scene.people.change("""update upstream_providers set saml = saml || '{"declined": []}'""")
    await refreshing.sweep()
    admin = scene.resident(scene.acme, "admin", "helper")
    assert (await scene.request("POST", f"{place}/{fingerprint(NEXT)}", by=admin)).status == 403
    stranger = scene.resident(scene.tenants.add("globex"), "owner", "stranger")
    elsewhere = place.replace("acme", "globex")
    for method in ("POST", "DELETE"):
        assert (await scene.request(method, f"{elsewhere}/{fingerprint(NEXT)}", by=stranger)).status == 404
        assert (await scene.request(method, f"{place}/{fingerprint(NEXT)}", by=stranger)).status in {403, 404}
    assert (await refreshing.certificates())[1] == [fingerprint(NEXT)]


HOSTILE: Final[Mapping[str, tuple[Answer, str]]] = {
    "away": (OutboundFailed(Failure.UNREACHABLE), "unreachable"),
    "slow": (OutboundFailed(Failure.TIMEOUT), "unreachable"),
    "an address that is not called": (OutboundFailed(Failure.REFUSED), "refused"),
    "a redirect inside": (leading("https://10.0.0.1/m"), "refused"),
    "a redirect to another scheme": (leading("file:///etc/passwd"), "refused"),
    "a redirect to nowhere": (leading("https://[::1"), "refused"),
    "a circle": (leading(ADDRESS), "status"),
    "an error": (OutboundAnswer(500, {}, metadata(NEW)), "status"),
    "huge": (b" " * (1 << 21), "too_long"),
    "a page": (b"<!doctype html><html><body>Sign in</body></html>", "not_metadata"),
    "nothing": (b"", "not_metadata"),
    "entities": (b'<!DOCTYPE x [<!ENTITY a "aaaa">]>' + metadata(NEW), "not_metadata"),
    "no certificate": (metadata(), "not_metadata"),
    "another entity": (metadata(NEW, entity="https://evil.example"), "other_entity"),
    "past its end": (metadata(NEW, until=' validUntil="2020-01-01T00:00:00Z"'), "ended"),
}


async def test_hostile_metadata_change_nothing(refreshing: Refreshing) -> None:
    old = fingerprint(OLD)
    refreshing.scene.log.allow("connection_metadata_failed")
    for name, (page, fault) in HOSTILE.items():
        refreshing.publish(page)
        await refreshing.sweep()
        record = await refreshing.record()
        assert (record["metadata_fault"], record["state"]) == (fault, "active"), name
        assert await refreshing.certificates() == ([old], []), name
        assert refreshing.scene.log.events("connection_metadata_failed")[-1]["fault"] == fault, name
        assert refreshing.scene.audited("organization.upstream_provider.metadata.failed")[-1]["details"]["fault"] == fault, name
    assert len(refreshing.outbound.asked) == len(HOSTILE) + 3
    # Of each kind of fault, the audit log has one entry in a row.
    faults = [fault for _, fault in HOSTILE.values()]
    changes = [one for before, one in zip(["", *faults], faults, strict=False) if one != before]
    assert refreshing.events() == ["metadata.failed"] * len(changes)
    refreshing.publish(metadata(OLD))
    await refreshing.sweep()
    record = await refreshing.record()
    assert (record["metadata_fault"], record["metadata_failing_since"]) == ("", None)


async def test_owners_hear_of_metadata_that_fail_for_days_and_of_another_entity_at_once(refreshing: Refreshing) -> None:
    refreshing.scene.log.allow("connection_metadata_failed")
    refreshing.publish(b"gone")
    for day in range(5):
        await refreshing.sweep()
        told = [mail.subject for mail in await refreshing.mails()]
        assert len(told) == (1 if day == 3 else 0), (day, told)
        refreshing.later(days=1)
    refreshing.publish(metadata(NEW, entity="https://evil.example"))
    await refreshing.sweep()
    (mail,) = await refreshing.mails()
    assert "another identity provider" in mail.subject
    await refreshing.sweep()
    assert await refreshing.mails() == []
    assert refreshing.metrics.endings[-1] == (0, 0, 1)


@pytest.mark.parametrize("what", ["directory", "ours", "metadata"])
async def test_owners_are_warned_of_each_end_three_times(refreshing: Refreshing, what: str) -> None:
    people = refreshing.scene.people
    people.change("""update upstream_providers set saml = saml || '{"metadata_url": ""}'""")
    ends = refreshing.clock.at + timedelta(days=40)
    far = (ends + timedelta(days=900)).isoformat()
    set_end = "update upstream_providers set saml = jsonb_set(saml, '{certificates,0,valid_until}', to_jsonb(%s::text))"
    people.change(set_end, far)
    if what == "directory":
        people.change(set_end, ends.isoformat())
    elif what == "metadata":
        value = f'{{"metadata": {{"valid_until": "{ends.isoformat()}"}}}}'
        people.change("update upstream_providers set saml = saml || %s::jsonb", value)
    else:
        await refreshing.sweep()
        saml = (await refreshing.record())["saml"]
        ends = datetime.fromisoformat(saml["certificate_valid_until"])
        people.change(set_end, (ends + timedelta(days=900)).isoformat())
    told: list[tuple[int, str]] = []
    for left in (31, 30, 29, 8, 7, 2, 1, 0, -1):
        refreshing.clock.at = ends - timedelta(days=left)
        await refreshing.sweep()
        told += [(left, mail.to) for mail in await refreshing.mails()]
        if left == 29 and what != "metadata":
            assert refreshing.metrics.endings[-1] == (1, 0, 0)
        if what != "metadata":
            assert refreshing.metrics.urgent[-1] == (left < 7)
    assert told == [(left, refreshing.scene.speaker.email) for left in (30, 7, 1)]


MEANWHILE: Final = {
    "deleted": "delete from upstream_providers",
    "a draft": "update upstream_providers set state = 'draft', enabled = false",
    "another address": """update upstream_providers set saml = saml || '{"metadata_url": "https://other.example/m"}'""",
    "another entity": "update upstream_providers set issuer = 'https://other.example'",
}


@pytest.mark.parametrize("change", MEANWHILE.values(), ids=MEANWHILE)
async def test_what_changes_during_a_look_is_left_as_it_is(refreshing: Refreshing, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    refreshing.publish(metadata(NEW))
    people = refreshing.scene.people
    meanwhile(monkeypatch, refreshing.outbound, "get", lambda: people.change(change))
    assert await refreshing.sweep() == 1
    rows = people.rows("select saml from upstream_providers")
    assert all(len(row["saml"]["certificates"]) == 1 and row["saml"]["waiting"] == [] for row in rows)
    assert refreshing.events() == []


@pytest.mark.parametrize("change", MEANWHILE.values(), ids=MEANWHILE)
async def test_a_look_that_fails_says_nothing_of_what_changed_meanwhile(
    refreshing: Refreshing, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Metadata that had failed for days, so that the owners would hear of one more failure."""
    people = refreshing.scene.people
    failing = "update upstream_providers set refresh_fault = 'status', failing_since = %s"
    people.change(failing, refreshing.clock.at - timedelta(days=4))
    refreshing.publish(b"gone")
    meanwhile(monkeypatch, refreshing.outbound, "get", lambda: people.change(change))
    assert await refreshing.sweep() == 1
    rows = people.rows("select refresh_fault, refresh_at from upstream_providers")
    assert [row["refresh_fault"] for row in rows] == ["status"] * len(rows)
    # The turn is over all the same: the next one comes when the lease ends.
    assert all(row["refresh_at"] > refreshing.clock.at for row in rows)
    assert (refreshing.events(), await refreshing.mails()) == ([], [])


async def test_what_is_to_come_is_counted_when_nothing_more_is_due(refreshing: Refreshing) -> None:
    """A round claims until fewer come than it asked for. To count all connections each time would be work for nothing."""
    refreshing.due()
    assert len(await refreshing.refreshes.claim_due(1)) == 1
    assert refreshing.metrics.endings == []
    assert await refreshing.refreshes.claim_due(1) == []
    assert refreshing.metrics.endings == [(0, 0, 0)]


@pytest.mark.parametrize(
    ("change", "asked"),
    [
        ("update upstream_providers set enabled = false", 1),
        ("update upstream_providers set state = 'draft', enabled = false", 0),
        ("update all_organizations set status = 'suspended' where slug = 'acme'", 0),
        ("update all_organizations set deleted_at = now() where slug = 'acme'", 0),
    ],
    ids=["turned off", "a draft", "a suspended organization", "a deleted organization"],
)
async def test_who_has_a_turn(refreshing: Refreshing, change: str, asked: int) -> None:
    refreshing.publish(metadata(OLD, NEW))
    refreshing.scene.people.change(change)
    assert await refreshing.sweep() == 1
    assert len(refreshing.outbound.asked) == asked
    # Nothing is due until the next day.
    refreshing.later(hours=20)
    assert await refreshing.refresher().sweep() == 0
    refreshing.later(hours=3)
    assert await refreshing.refresher().sweep() == 1


async def test_of_two_processes_one_looks(refreshing: Refreshing) -> None:
    refreshing.publish(metadata(OLD, NEW))
    refreshing.due()
    handled: list[int] = []

    async def sweep() -> None:
        handled.append(await refreshing.refresher().sweep())

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(sweep)
    assert (sorted(handled), len(refreshing.outbound.asked)) == ([0, 0, 0, 1], 1)


async def test_a_process_that_dies_leaves_the_turn_to_another(refreshing: Refreshing) -> None:
    refreshing.due()
    assert len(await refreshing.refreshes.claim_due(8)) == 1
    assert await refreshing.refresher().sweep() == 0
    refreshing.later(hours=1, seconds=1)
    assert await refreshing.refresher().sweep() == 1


async def test_a_look_that_was_late_changes_nothing_twice(refreshing: Refreshing) -> None:
    """Two processes with the same turn, since the first one's lease has ended: certificates and events come once."""
    refreshing.scene.people.change("""update upstream_providers set saml = saml || '{"metadata": {"was_signed": true}}'""")
    refreshing.publish(metadata(OLD, NEW))
    refreshing.due()
    (due,) = await refreshing.refreshes.claim_due(8)
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(refreshing.refreshes.refresh, due)
    assert await refreshing.certificates() == ([fingerprint(OLD)], [fingerprint(NEW)])
    assert (refreshing.events(), len(await refreshing.mails())) == (["certificates.waiting"], 1)


async def test_the_shipped_client_reads_and_redirects_are_followed_by_us_alone(refreshing: Refreshing) -> None:
    ready = refreshing.scene.postern.tenancy.connection_refreshes
    shipped = replace(refreshing.refreshes, reader=ready.reader)
    async with receiving(answers(200, metadata(OLD, NEW))) as receiver:
        address = f"http://127.0.0.1:{receiver.port}/metadata"
        refreshing.scene.people.change("update upstream_providers set saml = saml || jsonb_build_object('metadata_url', %s::text)", address)
        await refreshing.sweep(shipped)
        assert await refreshing.certificates() == ([fingerprint(OLD)], [fingerprint(NEW)])
        receiver.answer = answers(302, b"", f"location: http://127.0.0.1:{receiver.port}/next")
        refreshing.scene.log.allow("connection_metadata_failed")
        await refreshing.sweep(shipped)
        assert [one.target for one in receiver.calls] == ["/metadata", "/metadata", "/next", "/next", "/next"]


async def test_our_key_pair_changes_without_an_outage(refreshing: Refreshing) -> None:
    scene, place = refreshing.scene, f"{PATH}/{refreshing.provider}/certificate"
    scene.verified()

    async def ours() -> list[str]:
        text = (await scene.client.request("GET", f"/saml/sp/{refreshing.provider}")).body.decode()
        return sorted(set(_between(text)))

    async def signs_in() -> None:
        assert (await scene.arrive(scene.browser(), refreshing.provider)).status == 303

    (first,) = await ours()
    (await scene.request("POST", place, {})).ok()
    both = await ours()
    assert (len(both), first in both) == (2, True)
    await signs_in()
    record = (await scene.request("POST", place, {"activate": True})).ok()
    assert _bare(record["saml"]["former_certificate"]) == first
    second = _bare(record["saml"]["certificate"])
    assert (await ours(), record["saml"]["next_certificate"]) == ([second], None)
    await signs_in()
    # The former key still opens what a directory encrypts that has not read our metadata again.
    directory = await scene.postern.identity.connection_lookup.directory(record["id"])
    assert directory is not None
    assert [_bare(one.certificate) for one in scene.postern.tenancy.directory_answers.keys(directory)] == [second, first]
    dropped = (await scene.request("DELETE", f"{place}/former")).ok()
    assert dropped["saml"]["former_certificate"] is None
    (await scene.request("DELETE", f"{place}/former")).ok()
    assert (await scene.request("POST", place, {"activate": True})).status == 409
    await signs_in()


def _between(text: str) -> list[str]:
    return [part.split("<", 1)[0].replace("\n", "") for part in text.split("X509Certificate>")[1::2]]


def _bare(pem: str) -> str:
    return "".join(line for line in pem.splitlines() if not line.startswith("-----"))

"""SIEM configurations and the forwarded batches: credentials, chains, forms, answers and pauses."""

import json
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID

import pytest

from core.domain.errors import BadRequest
from core.domain.identifiers import OrganizationId, SiemId
from core.domain.outbound import destination
from core.domain.secrets import Secret
from core.domain.tenancy.siem import (
    Batch,
    Cursor,
    ExportIdentity,
    Numbered,
    SiemCredentials,
    SiemProvider,
    Stream,
    asked_of,
    authentication,
    canonical,
    head_claims,
    most_of_a_batch,
    pause_after,
    provider_named,
    record_of,
    refusal,
    require_usable,
)

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
EXPORT = ExportIdentity(OrganizationId(UUID(int=1)), SiemId(UUID(int=2)))


def numbered(sequence: int, **changes: Any) -> Numbered:
    personal = '["192.0.2.7", null, {}]'
    commitment = sha256(b"\x01" + personal.encode()).hexdigest()
    values = {"at": NOW, "entry": {"action": "role.created", "é": "😀"}, "commitment": commitment, "personal": personal, "salt": "01"}
    return Numbered(sequence, **{**values, **changes})


def key(text: str) -> SiemCredentials:
    return SiemCredentials(api_key=Secret(text))


@pytest.mark.parametrize(
    ("name", "provider"),
    [
        ("splunk_hec", SiemProvider.SPLUNK_HEC),
        (" Splunk-HEC ", SiemProvider.SPLUNK_HEC),
        ("http event collector", SiemProvider.SPLUNK_HEC),
        ("log_intake", SiemProvider.DATADOG),
        ("bulk", SiemProvider.ELASTIC),
        ("NDJSON", SiemProvider.GENERIC),
    ],
)
def test_providers_have_neutral_names(name: str, provider: SiemProvider) -> None:
    assert provider_named(name) is provider


@pytest.mark.parametrize(
    ("provider", "credentials", "headers"),
    [
        (SiemProvider.GENERIC, SiemCredentials(), {}),
        (SiemProvider.GENERIC, key("k"), {"Authorization": "Bearer k"}),
        (SiemProvider.SPLUNK_HEC, key("k"), {"Authorization": "Splunk k"}),
        (SiemProvider.DATADOG, key("k"), {"DD-API-KEY": "k"}),
        (SiemProvider.ELASTIC, key("k"), {"Authorization": "ApiKey k"}),
        (SiemProvider.GENERIC, SiemCredentials(None, Secret("Basic YTpi")), {"Authorization": "Basic YTpi"}),
        (SiemProvider.GENERIC, SiemCredentials(None, Secret("X-Key: a:b")), {"X-Key": "a:b"}),
        (SiemProvider.GENERIC, SiemCredentials(Secret("k"), Secret("X-Key")), {"X-Key": "k"}),
        (SiemProvider.DATADOG, SiemCredentials(Secret("k"), Secret("X-Tenant: 7")), {"DD-API-KEY": "k", "X-Tenant": "7"}),
        (SiemProvider.GENERIC, SiemCredentials(Secret("k"), Secret("X-Tenant: 7")), {"X-Tenant": "7"}),
        (SiemProvider.SPLUNK_HEC, SiemCredentials(Secret("k"), Secret("Authorization: Bearer z")), {"Authorization": "Bearer z"}),
        (SiemProvider.GENERIC, SiemCredentials(None, Secret("token:")), {"Authorization": "token:"}),
    ],
)
def test_credentials_travel_where_the_provider_looks(provider: SiemProvider, credentials: SiemCredentials, headers: dict[str, str]) -> None:
    assert authentication(provider, credentials) == headers


@pytest.mark.parametrize(
    "header",
    [
        *("Host: x", "content-length: 0", "Content-Type: text/html", "User-Agent: x", "Accept-Encoding: gzip", "Date: x"),
        # What speaks to the next hop, or about the connection (RFC 9110, sections 7.6 to 7.8, and what it names obsolete).
        *("Connection: close", "Transfer-Encoding: chunked", "TE: trailers", "Trailer: x", "Upgrade: h2c", "HTTP2-Settings: x"),
        *("Keep-Alive: timeout=600", "Proxy-Connection: close", "Proxy-Authorization: Basic x", "Proxy-Authenticate: Basic"),
        *("Max-Forwards: 0", "Via: 1.1 x"),
        # What the receiver is to do with the request before it is there, with which part, or if.
        *("Expect: 100-continue", "expect: x", "Range: bytes=0-1", "If-Match: x", "If-None-Match: *", "If-Unmodified-Since: x"),
        *("Content-Encoding: gzip", "Content-Range: bytes 0-1/2"),
    ],
)
def test_headers_of_ours_are_not_for_credentials(header: str) -> None:
    with pytest.raises(BadRequest):
        require_usable(SiemCredentials(None, Secret(header)))
    with pytest.raises(BadRequest):
        require_usable(SiemCredentials(Secret("k"), Secret(header.partition(":")[0])))


@pytest.mark.parametrize("header", ["Authorization: Basic x", "X-Api-Key: x", "DD-API-KEY: x", "Cookie: a=b", "TE-Token: x", "X-Expect: x"])
def test_other_headers_are(header: str) -> None:
    require_usable(SiemCredentials(None, Secret(header)))


def test_credentials_are_read_back_as_they_were_sealed() -> None:
    for credentials in (key("k"), SiemCredentials(None, Secret("Basic x")), SiemCredentials(Secret("k"), Secret("h"))):
        again = SiemCredentials.read(credentials.text())
        assert authentication(SiemProvider.GENERIC, again) == authentication(SiemProvider.GENERIC, credentials)
        assert "***" in repr(credentials)
    assert not SiemCredentials()


def test_each_digest_covers_the_one_before_and_no_personal_part() -> None:
    first, end = record_of(EXPORT, Stream.AUDIT, Cursor(), numbered(1))
    assert first["previous"] == "0" * 64
    covered = {name: value for name, value in first.items() if name not in {"digest", "personal"}}
    assert first["digest"] == sha256(canonical(covered)).hexdigest() == end.digest.hex()
    second, _ = record_of(EXPORT, Stream.AUDIT, end, numbered(2))
    assert second["previous"] == first["digest"]
    forgotten, _ = record_of(EXPORT, Stream.AUDIT, end, numbered(2, personal=None, salt=None))
    assert (forgotten["digest"], forgotten["personal"]) == (second["digest"], None)
    for change in ({"entry": None}, {"commitment": None}, {"entry": {"action": "role.deleted"}}):
        other, _ = record_of(EXPORT, Stream.AUDIT, end, numbered(2, **change))
        assert other["digest"] != second["digest"], change
    elsewhere = ExportIdentity(OrganizationId(UUID(int=9)), EXPORT.id)
    assert record_of(elsewhere, Stream.AUDIT, end, numbered(2))[0]["digest"] != second["digest"]
    assert head_claims(EXPORT, Stream.AUDIT, end, NOW, "https://id.example.org")["digest"] == first["digest"]


def test_the_same_entries_leave_in_the_same_chain_however_they_are_cut() -> None:
    whole = Batch(SiemProvider.GENERIC, EXPORT, Stream.AUDIT, Cursor(), NOW)
    for number in (1, 2, 3):
        whole.add(numbered(number))
    first = Batch(SiemProvider.GENERIC, EXPORT, Stream.AUDIT, Cursor(), NOW)
    first.add(numbered(1))
    rest = Batch(SiemProvider.GENERIC, EXPORT, Stream.AUDIT, first.end, NOW)
    rest.add(numbered(2))
    rest.add(numbered(3))
    assert whole.end == rest.end
    assert (len(whole), len(first), len(rest)) == (3, 1, 2)


@pytest.mark.parametrize("provider", SiemProvider)
def test_an_entry_without_a_time_leaves_too(provider: SiemProvider) -> None:
    batch = Batch(provider, EXPORT, Stream.AUDIT, Cursor(), NOW)
    batch.add(numbered(1, at=None, entry=None, commitment=None, personal=None, salt=None))
    body = batch.body("a.b.c", NOW).decode()
    items = json.loads(body) if provider is SiemProvider.DATADOG else [json.loads(line) for line in body.splitlines()]
    assert len(items) == (4 if provider is SiemProvider.ELASTIC else 2)
    assert batch.oldest is None


def test_elastic_is_asked_for_a_short_answer_once() -> None:
    bare, queried = destination("https://e.example/_bulk"), destination("https://e.example/_bulk?refresh=true")
    assert asked_of(SiemProvider.ELASTIC, bare).target.startswith("/_bulk?filter_path=")
    assert asked_of(SiemProvider.ELASTIC, queried).target.startswith("/_bulk?refresh=true&filter_path=")
    once = asked_of(SiemProvider.ELASTIC, bare)
    assert asked_of(SiemProvider.ELASTIC, once) == once
    assert asked_of(SiemProvider.GENERIC, bare) == bare


@pytest.mark.parametrize(
    ("provider", "status", "body", "refused"),
    [
        (SiemProvider.GENERIC, 204, b"", None),
        (SiemProvider.GENERIC, 200, b"<html>", None),
        (SiemProvider.GENERIC, 302, b"", "answered 302"),
        (SiemProvider.SPLUNK_HEC, 403, b"", "answered 403"),
        (SiemProvider.ELASTIC, 200, b"", None),
        (SiemProvider.ELASTIC, 200, b'{"errors": false}', None),
        (SiemProvider.ELASTIC, 200, b"<html>", "answered 200, but not as a bulk interface does"),
        (SiemProvider.ELASTIC, 200, b"[]", "answered 200, but not as a bulk interface does"),
        (SiemProvider.ELASTIC, 200, b'{"took": 3}', "answered 200, but not as a bulk interface does"),
        (SiemProvider.ELASTIC, 200, b'{"errors": true}', "answered 200, but not as a bulk interface does"),
        (SiemProvider.ELASTIC, 200, b'{"errors": true, "items": []}', "answered 200, but not which entries it refused"),
        (SiemProvider.ELASTIC, 200, b'{"errors": true, "items": [{"create": {}}]}', "answered 200, but not as a bulk interface does"),
        (SiemProvider.ELASTIC, 200, b'{"errors": true, "items": [{"create": {"status": 409}}]}', None),
        (SiemProvider.ELASTIC, 200, b'{"errors": true, "items": [{"create": {"status": 429}}]}', "1 entries refused, the first with 429"),
    ],
)
def test_answers_say_whether_a_batch_counts(provider: SiemProvider, status: int, body: bytes, refused: str | None) -> None:
    assert refusal(provider, status, body) == refused


def test_pauses_grow_to_ten_minutes_and_batches_shrink_to_one() -> None:
    pauses = [pause_after(failures, 0.0, None, NOW) for failures in range(12)]
    assert pauses[:3] == [timedelta(seconds=5), timedelta(seconds=10), timedelta(seconds=20)]
    assert pauses[-1] == timedelta(minutes=10)
    assert pause_after(99, 1.0, None, NOW) == timedelta(minutes=11)
    assert pause_after(0, 0.0, "120", NOW) == timedelta(minutes=2)
    assert pause_after(5, 0.0, "1", NOW) == pauses[5]
    assert [most_of_a_batch(SiemProvider.GENERIC, 500, failures) for failures in (0, 1, 2, 8, 9, 50)] == [500, 250, 125, 1, 1, 1]
    # The head is an item, too.
    assert [most_of_a_batch(provider, 1000, 0) for provider in (SiemProvider.ELASTIC, SiemProvider.DATADOG)] == [1000, 999]


@pytest.mark.parametrize(("age", "told"), [(1, True), (24, False)])
def test_old_entries_have_no_time_for_a_receiver_that_would_throw_them_away(age: int, told: bool) -> None:
    at = NOW - timedelta(hours=age)
    log = Batch(SiemProvider.DATADOG, EXPORT, Stream.AUDIT, Cursor(), NOW)
    index = Batch(SiemProvider.ELASTIC, EXPORT, Stream.AUDIT, Cursor(), NOW)
    for batch in (log, index):
        batch.add(numbered(1, at=at))
        assert batch.oldest == at
    assert ("timestamp" in json.loads(log.body("x", NOW))[0]) is told
    assert "@timestamp" in json.loads(index.body("x", NOW).splitlines()[1])

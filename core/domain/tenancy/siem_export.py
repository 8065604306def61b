"""The data for a SIEM, in the form of each provider: numbered entries in a chain that anybody can verify without a key of ours.

The digest of each entry covers the entry before, and the end of each batch is signed. The chain does not cover the part of an entry that
may be forgotten, but a commitment to this part, a salted digest. So the part may be missing, and the chain still holds.
`docs/guides/verify-audit-offline.md` tells how to verify it.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final

from core.domain.identifiers import OrganizationId, SiemId
from core.domain.json import Json
from core.domain.outbound.destinations import OutboundDestination
from core.domain.record.deliveries import rest_asked
from core.domain.tenancy.siem import SiemProvider
from core.frozen import Frozen

# The size of one batch in bytes; the last entry may go beyond it. All receivers accept at least this much.
MOST_BYTES: Final = 1 << 20
_FIRST_PAUSE: Final = timedelta(seconds=5)
_LONGEST_PAUSE: Final = timedelta(minutes=10)
_LONGEST_ERROR: Final = 300
_ALREADY_THERE: Final = 409
# Datadog accepts a thousand items at once, the head included. It does not index items whose time is more than 18 hours ago.
_MOST_ITEMS_OF_DATADOG: Final = 1000
_OLDEST_OF_DATADOG: Final = timedelta(hours=17)


class Stream(StrEnum):
    """Each stream has a sequence, a chain and a cursor of its own."""

    AUDIT = "audit"
    SIGN_IN = "sign_in"


# The personal part of an entry is a list in this order.
PERSONAL_FIELDS: Final[Mapping[Stream, Sequence[str]]] = {
    Stream.AUDIT: ("address", "user_agent", "details"),
    Stream.SIGN_IN: ("user_id", "address", "user_agent", "country", "city", "device_id"),
}


class Cursor(Frozen):
    """The last entry that the receiver has confirmed, and the digest of the chain there."""

    sequence: int = 0
    digest: bytes = bytes(32)


class Numbered(Frozen):
    """An entry in its place. `entry` is None when somebody has removed the entry. `personal` is the text behind the commitment, after the
    salt. It is None when there is none, or when it was forgotten.
    """

    sequence: int
    at: datetime | None
    entry: Mapping[str, Json] | None
    commitment: str | None
    personal: str | None
    salt: str | None


class ExportIdentity(Frozen):
    organization: OrganizationId
    id: SiemId

    def place(self, stream: str, sequence: int) -> dict[str, Json]:
        return {"stream": stream, "organization_id": str(self.organization), "export_id": str(self.id), "sequence": sequence}


def canonical(value: Mapping[str, Json]) -> bytes:
    """The one text of a JSON value that both sides compute: keys in order, no spaces, UTF-8."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def record_of(export: ExportIdentity, stream: Stream, before: Cursor, one: Numbered) -> tuple[Mapping[str, Json], Cursor]:
    """The entry as it is sent, and the end of the chain with it."""
    covered: dict[str, Json] = {
        **export.place(stream, one.sequence),
        "previous": before.digest.hex(),
        "entry": one.entry,
        "commitment": one.commitment,
    }
    digest = sha256(canonical(covered)).digest()
    return {**covered, "digest": digest.hex(), "personal": _personal(stream, one)}, Cursor(one.sequence, digest)


def _personal(stream: Stream, one: Numbered) -> Mapping[str, Json] | None:
    if one.personal is None:
        return None
    named = dict(zip(PERSONAL_FIELDS[stream], json.loads(one.personal), strict=True))
    return {**named, "salt": one.salt, "text": one.personal}


def head_claims(export: ExportIdentity, stream: Stream, end: Cursor, now: datetime, issuer: str) -> Mapping[str, Json]:
    """The claims of a signed head."""
    return {"iss": issuer, "iat": int(now.timestamp()), **export.place(stream, end.sequence), "digest": end.digest.hex()}


class Batch:
    """Entries that are sent together, in order."""

    def __init__(self, provider: SiemProvider, export: ExportIdentity, stream: Stream, after: Cursor, now: datetime) -> None:
        self._provider = provider
        self._now = now
        self._export = export
        self._stream = stream
        self._items: list[bytes] = []
        self.end = after
        self.oldest: datetime | None = None

    def __len__(self) -> int:
        return len(self._items)

    def add(self, one: Numbered) -> None:
        record, self.end = record_of(self._export, self._stream, self.end, one)
        self._items.append(_wrapped(self._provider, record, _shown_time(self._provider, one.at, self._now)))
        self.oldest = self.oldest or one.at

    def body(self, head: str, now: datetime) -> bytes:
        """The body. The signed head of the chain is its last item."""
        record = {**self._export.place(self._stream, self.end.sequence), "head": head}
        return joined(self._provider, [*self._items, _wrapped(self._provider, record, now)])


def test_body(provider: SiemProvider, export: ExportIdentity, now: datetime) -> bytes:
    """A test message. It belongs to no sequence and no chain."""
    record = {**export.place("test", 0), "message": "Postern can send here"}
    return joined(provider, [_wrapped(provider, record, now)])


def _shown_time(provider: SiemProvider, at: datetime | None, now: datetime) -> datetime | None:
    """The time that the receiver should show. None when the receiver would reject the entry for its age: then it shows the time of arrival.
    The record has the entry's own time.
    """
    return None if provider is SiemProvider.DATADOG and at is not None and now - at > _OLDEST_OF_DATADOG else at


def _wrapped(provider: SiemProvider, record: Mapping[str, Json], at: datetime | None) -> bytes:
    """A record in the provider's form, with the time in the field that the provider reads."""
    when = None if at is None else at.astimezone(UTC).isoformat().replace("+00:00", "Z")
    match provider:
        case SiemProvider.SPLUNK_HEC:
            # https://docs.splunk.com/Documentation/Splunk/latest/Data/FormateventsforHTTPEventCollector
            time = {} if at is None else {"time": round(at.timestamp(), 3)}
            return canonical({**time, "source": "postern", "sourcetype": "_json", "event": record})
        case SiemProvider.DATADOG:
            # https://docs.datadoghq.com/api/latest/logs/#send-logs
            told = {} if when is None else {"timestamp": when}
            tags = f"stream:{record['stream']},organization_id:{record['organization_id']}"
            message = f"postern {record['stream']} {record['sequence']}"
            return canonical({**told, "ddsource": "postern", "service": "postern", "ddtags": tags, "message": message, "postern": record})
        case SiemProvider.ELASTIC:
            # https://www.elastic.co/docs/api/doc/elasticsearch/operation/operation-bulk: `create` does not write an existing entry again.
            kind = "-head" if "head" in record else ""
            identity = f"{record['export_id']}-{record['stream']}-{record['sequence']}{kind}"
            action = {} if record["stream"] == "test" else {"_id": identity}
            stamp = {} if when is None else {"@timestamp": when}
            return canonical({"create": action}) + b"\n" + canonical({**stamp, **record})
        case _:
            return canonical(record)


def joined(provider: SiemProvider, items: Sequence[bytes]) -> bytes:
    if provider is SiemProvider.DATADOG:
        return b"[" + b",".join(items) + b"]"
    return b"\n".join(items) + b"\n"


def headers_of(provider: SiemProvider, authentication: Mapping[str, str]) -> Mapping[str, str]:
    as_lines = provider in {SiemProvider.ELASTIC, SiemProvider.GENERIC}
    return {
        "content-type": "application/x-ndjson" if as_lines else "application/json",
        "user-agent": "Postern-SIEM",
        **authentication,
    }


def asked_of(provider: SiemProvider, to: OutboundDestination) -> OutboundDestination:
    """The address for a batch. Elastic's answer says for each item what happened. We ask for no other fields, because we read only the
    beginning of an answer.
    """
    if provider is not SiemProvider.ELASTIC or "filter_path=" in to.target:
        return to
    mark = "&" if "?" in to.target else "?"
    return OutboundDestination(to.scheme, to.host, to.port, f"{to.target}{mark}filter_path=errors,items.*.status,items.*.error.type")


def refusal(provider: SiemProvider, status: int, body: bytes) -> str | None:
    """The reason why the batch does not count as received. None when it does."""
    if not 200 <= status < 300:
        return f"answered {status}"
    if provider is not SiemProvider.ELASTIC or not body.strip():
        return None
    # Elastic answers 200 even when it has refused some or all items.
    try:
        told: Any = json.loads(body)
        items = [item for one in told["items"] for item in one.values()] if told["errors"] else None
        failed = [item for item in items or () if _failed(item)]
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
        return f"answered {status}, but not as a bulk interface does"
    if items == []:
        # The configured address may filter the fields of the answer. Refused items must still be visible.
        return f"answered {status}, but not which entries it refused"
    if not failed:
        return None
    error = failed[0].get("error")
    kind = error.get("type") if isinstance(error, dict) else None
    return f"{len(failed)} entries refused, the first with {failed[0]['status']} {_word(kind)}".strip()[:_LONGEST_ERROR]


def _word(kind: Any) -> str:
    """The error type without characters that must not be shown to a member or logged."""
    return "".join(letter for letter in kind[:_LONGEST_ERROR] if " " <= letter <= "~") if isinstance(kind, str) else ""


def _failed(item: Mapping[str, Any]) -> bool:
    status = item["status"]
    return not 200 <= status < 300 and status != _ALREADY_THERE


def pause_after(failures: int, spread: float, retry_after: str | None, now: datetime) -> timedelta:
    """The pause before the next attempt. `failures` counts the failures before this one. The pause grows each time, and is up to a tenth
    longer, so that exports that failed together do not return together. There is no last attempt: no entry may be left out.
    """
    pause: timedelta = min(_FIRST_PAUSE * (1 << min(failures, 10)), _LONGEST_PAUSE) * (1 + spread / 10)
    rest = rest_asked(retry_after, now)
    return pause if rest is None else max(pause, rest)


def most_of_a_batch(provider: SiemProvider, batch_size: int, failures: int) -> int:
    """The number of entries in a batch. It shrinks after each failure, since the receiver may refuse the batch for its size."""
    most = min(batch_size, _MOST_ITEMS_OF_DATADOG - 1) if provider is SiemProvider.DATADOG else batch_size
    return max(1, most >> min(failures, 10))

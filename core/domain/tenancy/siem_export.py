"""What leaves for a SIEM: numbered entries in a chain that anybody can verify without a key of ours, in the form of each provider.

The digest of each entry covers the one before, and the end of each batch is signed. What may be forgotten of an entry is not covered
itself: the chain covers a commitment to it, a salted digest. So it may be missing, and the chain still holds.
`docs/guides/verify-audit-offline.md` is the other side of this file.
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

# What one batch weighs, give or take an entry. Receivers take at least this much.
MOST_BYTES: Final = 1 << 20
_FIRST_PAUSE: Final = timedelta(seconds=5)
_LONGEST_PAUSE: Final = timedelta(minutes=10)
_LONGEST_ERROR: Final = 300
_ALREADY_THERE: Final = 409
# Datadog takes a thousand items at once, of which the head is one, and indexes none whose time is more than 18 hours ago.
_MOST_ITEMS_OF_DATADOG: Final = 1000
_OLDEST_OF_DATADOG: Final = timedelta(hours=17)


class Stream(StrEnum):
    """Each has a sequence, a chain and a cursor of its own."""

    AUDIT = "audit"
    SIGN_IN = "sign_in"


# The personal part of an entry is a list in the order of these.
PERSONAL_FIELDS: Final[Mapping[Stream, Sequence[str]]] = {
    Stream.AUDIT: ("address", "user_agent", "details"),
    Stream.SIGN_IN: ("user_id", "address", "user_agent", "country", "city", "device_id"),
}


class Cursor(Frozen):
    """The last entry that was received, and the digest of the chain there."""

    sequence: int = 0
    digest: bytes = bytes(32)


class Numbered(Frozen):
    """An entry in its place. `entry` is None when it is missing: somebody removed it. `personal` is the text that the commitment was made
    of, after the salt; None when there is none, or when it was forgotten.
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
    """Keys in order, no spaces, UTF-8: the one text of a JSON value that both sides compute."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def record_of(export: ExportIdentity, stream: Stream, before: Cursor, one: Numbered) -> tuple[Mapping[str, Json], Cursor]:
    """The entry as it leaves, and the end of the chain with it."""
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
    """What the signature of a head says."""
    return {"iss": issuer, "iat": int(now.timestamp()), **export.place(stream, end.sequence), "digest": end.digest.hex()}


class Batch:
    """Entries that leave together, one after the other."""

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
        """With the signed head of the chain as its last item."""
        record = {**self._export.place(self._stream, self.end.sequence), "head": head}
        return joined(self._provider, [*self._items, _wrapped(self._provider, record, now)])


def test_body(provider: SiemProvider, export: ExportIdentity, now: datetime) -> bytes:
    """Of no sequence, and in no chain."""
    record = {**export.place("test", 0), "message": "Postern can send here"}
    return joined(provider, [_wrapped(provider, record, now)])


def _shown_time(provider: SiemProvider, at: datetime | None, now: datetime) -> datetime | None:
    """None where the receiver would throw the entry away for its age, and so takes the time of arrival. The record has the entry's own."""
    return None if provider is SiemProvider.DATADOG and at is not None and now - at > _OLDEST_OF_DATADOG else at


def _wrapped(provider: SiemProvider, record: Mapping[str, Json], at: datetime | None) -> bytes:
    """In the provider's form, with its time where the provider looks for it."""
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
            # https://www.elastic.co/docs/api/doc/elasticsearch/operation/operation-bulk: one that is there already is not written again.
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
    """Elastic's answer tells what became of each item, and is asked to tell no more than that: only the beginning of an answer is read."""
    if provider is not SiemProvider.ELASTIC or "filter_path=" in to.target:
        return to
    mark = "&" if "?" in to.target else "?"
    return OutboundDestination(to.scheme, to.host, to.port, f"{to.target}{mark}filter_path=errors,items.*.status,items.*.error.type")


def refusal(provider: SiemProvider, status: int, body: bytes) -> str | None:
    """Why the batch does not count as received. None: it does."""
    if not 200 <= status < 300:
        return f"answered {status}"
    if provider is not SiemProvider.ELASTIC or not body.strip():
        return None
    # Answers 200 also when it has refused some of the items, or all.
    try:
        told: Any = json.loads(body)
        items = [item for one in told["items"] for item in one.values()] if told["errors"] else None
        failed = [item for item in items or () if _failed(item)]
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
        return f"answered {status}, but not as a bulk interface does"
    if items == []:
        # The configured address may ask for less of an answer. What was refused must show.
        return f"answered {status}, but not which entries it refused"
    if not failed:
        return None
    error = failed[0].get("error")
    kind = error.get("type") if isinstance(error, dict) else None
    return f"{len(failed)} entries refused, the first with {failed[0]['status']} {_word(kind)}".strip()[:_LONGEST_ERROR]


def _word(kind: Any) -> str:
    """What a member may be shown, and a log may hold."""
    return "".join(letter for letter in kind[:_LONGEST_ERROR] if " " <= letter <= "~") if isinstance(kind, str) else ""


def _failed(item: Mapping[str, Any]) -> bool:
    status = item["status"]
    return not 200 <= status < 300 and status != _ALREADY_THERE


def pause_after(failures: int, spread: float, retry_after: str | None, now: datetime) -> timedelta:
    """Until the next attempt; `failures` are those before this one. Longer each time, and up to a tenth more, so that what failed together
    does not return together. There is no last attempt: nothing may be left out.
    """
    pause: timedelta = min(_FIRST_PAUSE * (1 << min(failures, 10)), _LONGEST_PAUSE) * (1 + spread / 10)
    rest = rest_asked(retry_after, now)
    return pause if rest is None else max(pause, rest)


def most_of_a_batch(provider: SiemProvider, batch_size: int, failures: int) -> int:
    """Fewer after each failure, since the size may be what the receiver refuses."""
    most = min(batch_size, _MOST_ITEMS_OF_DATADOG - 1) if provider is SiemProvider.DATADOG else batch_size
    return max(1, most >> min(failures, 10))

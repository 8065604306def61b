"""SIEM exports of an organization: the receiver, and the entries that it gets in a verifiable hash chain."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

from core.domain.errors import BadRequest
from core.domain.formats import Json
from core.domain.identifiers import OrganizationId, SiemId
from core.domain.lines import typed_line
from core.domain.outbound import NotADestination, OutboundDestination, destination
from core.domain.record.deliveries import rest_asked
from core.domain.record.events import Actor, Event, Target
from core.domain.secrets import Secret
from core.frozen import Frozen

SIEM_TOPIC: Final = "siem"
"""The doorbell's topic for entries that may go to a SIEM, and for changes of who gets them."""

LONGEST_NAME: Final = 100
LONGEST_CREDENTIAL: Final = 2000
BATCH_SIZE: Final = 500
MOST_IN_A_BATCH: Final = 1000

_FIELD_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_FIELD_VALUE: Final = re.compile(r"[!-~](?:[ -~]*[!-~])?")
# Headers that credentials must not use. We write those that frame, describe or address the request. The others speak to the next hop, or
# hold the request up (RFC 9110, sections 7.6, 7.8, 10.1.1, 13 and 14).
_OURS: Final = frozenset(
    {
        *("host", "date", "user-agent", "accept-encoding", "content-length", "content-type", "content-encoding", "content-range"),
        *("connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "http2-settings", "via", "max-forwards"),
        *("proxy-connection", "proxy-authenticate", "proxy-authentication-info", "proxy-authorization"),
        *("expect", "range", "if-range", "if-match", "if-none-match", "if-modified-since", "if-unmodified-since"),
    }
)


class SiemProvider(StrEnum):
    SPLUNK_HEC = "splunk_hec"
    DATADOG = "datadog"
    ELASTIC = "elastic"
    GENERIC = "generic"


# Other names for the same forms. Some of them name the form and no vendor.
_NAMES: Final[Mapping[SiemProvider, tuple[str, ...]]] = {
    SiemProvider.SPLUNK_HEC: ("splunk", "hec", "event_collector", "http_event_collector"),
    SiemProvider.DATADOG: ("datadog_logs", "log_intake", "logs_intake", "http_log_intake"),
    SiemProvider.ELASTIC: ("elasticsearch", "opensearch", "elastic_bulk", "bulk", "bulk_api", "bulk_index"),
    SiemProvider.GENERIC: ("ndjson", "generic_ndjson", "generic_http", "generic_json", "http", "https", "json", "webhook", "custom"),
}
_BY_NAME: Final = {name: provider for provider, names in _NAMES.items() for name in (provider.value, *names)}


class SiemCredentials(Frozen):
    """`auth_header` is the value of `Authorization`, or `Name: value`. With an `api_key`, it may also be the name of
    the header for the key.
    """

    api_key: Secret | None = None
    auth_header: Secret | None = None

    def __bool__(self) -> bool:
        return self.api_key is not None or self.auth_header is not None

    def text(self) -> bytes:
        """The text that is sealed."""
        return json.dumps(
            {
                "api_key": None if self.api_key is None else self.api_key.reveal(),
                "auth_header": None if self.auth_header is None else self.auth_header.reveal(),
            }
        ).encode()

    @classmethod
    def read(cls, text: bytes) -> "SiemCredentials":
        kept = json.loads(text)
        return cls(*(None if kept[name] is None else Secret(kept[name]) for name in ("api_key", "auth_header")))


class SiemConfiguration(Frozen, kw_only=True):
    """The receiver of an organization's audit log and sign-ins, and the format of the data. The configuration's ID names the export. The
    chains of an export begin with its first entry.
    """

    id: SiemId
    organization: OrganizationId
    name: str
    provider: SiemProvider
    endpoint_url: str
    batch_size: int
    is_active: bool
    has_credentials: bool
    created_at: datetime
    updated_at: datetime


class SiemHealth(Frozen):
    """`lag` counts the entries that the receiver has not confirmed, and `lag_seconds` is the age of the oldest of them."""

    last_delivered_at: datetime | None = None
    last_error: str | None = None
    lag: int = 0
    lag_seconds: int = 0


def provider_named(text: str) -> SiemProvider:
    """Raises `BadRequest`."""
    provider = _BY_NAME.get(text.strip().lower().replace("-", "_").replace(" ", "_"))
    if provider is None:
        raise BadRequest(f"provider_type: one of {', '.join(SiemProvider)}", words="field_choice")
    return provider


def siem_name(text: str) -> str:
    name = typed_line("name", text)
    if not 1 <= len(name) <= LONGEST_NAME:
        raise BadRequest(f"name: 1 to {LONGEST_NAME} characters", words="field_length", values={"least": 1, "most": LONGEST_NAME})
    return name


def siem_destination(text: str) -> OutboundDestination:
    """Raises `BadRequest`."""
    try:
        return destination(text)
    except NotADestination as refusal:
        raise BadRequest(f"endpoint_url: {refusal}", words="web_address") from None


def siem_batch_size(size: int) -> int:
    if not 1 <= size <= MOST_IN_A_BATCH:
        raise BadRequest(f"batch_size: 1 to {MOST_IN_A_BATCH}", words="field_bounds", values={"least": 1, "most": MOST_IN_A_BATCH})
    return size


def credential(field: str, text: str | None) -> Secret | None:
    """None when there is none. Raises `BadRequest`, also for a text that cannot be in a header."""
    if not text:
        return None
    if len(text) > LONGEST_CREDENTIAL or _FIELD_VALUE.fullmatch(text) is None:
        raise BadRequest(
            f"{field}: at most {LONGEST_CREDENTIAL} visible ASCII characters, with spaces between them",
            words="ascii_length",
            values={"most": LONGEST_CREDENTIAL},
        )
    return Secret(text)


def require_usable(credentials: SiemCredentials) -> None:
    """Raises `BadRequest` for a header that only we may write, or that must be missing."""
    if any(name.lower() in _OURS for name in authentication(SiemProvider.GENERIC, credentials)):
        raise BadRequest("auth_header: this header is not for credentials", words="header_not_for_credentials")


def authentication(provider: SiemProvider, credentials: SiemCredentials) -> Mapping[str, str]:
    """The headers that carry the credentials."""
    key = None if credentials.api_key is None else credentials.api_key.reveal()
    header = None if credentials.auth_header is None else credentials.auth_header.reveal()
    if header is None:
        return {} if key is None else _usual(provider, key)
    if key is not None and _FIELD_NAME.fullmatch(header):
        return {header: key}
    name, colon, value = header.partition(":")
    named = {name: value.strip()} if colon and _FIELD_NAME.fullmatch(name) and value.strip() else {"Authorization": header}
    return named if key is None or provider is SiemProvider.GENERIC else {**_usual(provider, key), **named}


def _usual(provider: SiemProvider, key: str) -> Mapping[str, str]:
    match provider:
        case SiemProvider.SPLUNK_HEC:
            return {"Authorization": f"Splunk {key}"}
        case SiemProvider.DATADOG:
            return {"DD-API-KEY": key}
        case SiemProvider.ELASTIC:
            return {"Authorization": f"ApiKey {key}"}
        case _:
            return {"Authorization": f"Bearer {key}"}


def keeps_credentials(before: SiemConfiguration, provider: SiemProvider, to: OutboundDestination) -> bool:
    """Whether a change without new credentials may keep the old ones: only for the receiver that they were given for. Otherwise a member
    who does not know them could have them sent to a server of their own.
    """
    there = siem_destination(before.endpoint_url)
    return before.provider is provider and (there.scheme, there.host, there.port) == (to.scheme, to.host, to.port)


def siem_configured(configuration: SiemConfiguration, actor: Actor) -> Event:
    return _event("siem.configured", configuration, actor)


def siem_removed(configuration: SiemConfiguration, actor: Actor) -> Event:
    return _event("siem.removed", configuration, actor)


def siem_tested(configuration: SiemConfiguration, actor: Actor) -> Event:
    return _event("siem.tested", configuration, actor)


def _event(name: str, configuration: SiemConfiguration, actor: Actor) -> Event:
    """The event has no URL, because the URL may contain a token of the receiver."""
    details: Mapping[str, Json] = {
        "name": configuration.name,
        "provider_type": configuration.provider.value,
        "host": siem_destination(configuration.endpoint_url).host,
        "batch_size": configuration.batch_size,
        "is_active": configuration.is_active,
    }
    return Event(name, actor, Target("siem", str(configuration.id)), configuration.organization, details)


def sealing_context(configuration: UUID) -> str:
    return f"siem_configurations.sealed_credentials:{configuration}"


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
    """Entries that are sent together, in order, in the format of the receiver. They are numbered in a chain that anyone can verify without
    a key of ours: the digest of each entry covers the entry before, and the end of each batch is signed. The chain does not cover the part
    of an entry that may be erased, but a commitment to this part, a salted digest. So the part may be missing, and the chain still holds.
    `docs/guides/verify-audit-offline.md` describes how to verify it.
    """

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

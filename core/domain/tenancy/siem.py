"""SIEM configurations: the receiver of an organization's audit log and sign-ins, the form of the data, and the credentials."""

import json
import re
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from core.domain.errors import BadRequest
from core.domain.identifiers import OrganizationId, SiemId
from core.domain.json import Json
from core.domain.lines import typed_line
from core.domain.outbound.destinations import NotADestination, OutboundDestination, destination
from core.domain.record.events import Actor, Event, Target
from core.domain.secrets import Secret
from core.frozen import Frozen

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
    """The configuration's id names the export. The chains of an export begin with its first entry."""

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

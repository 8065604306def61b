"""Record the requests of directories and their outcomes, for the flight recorder. No request waits for its record."""

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec
import structlog

from core.domain.errors import Refusal
from core.domain.federation.scim.mappings import dropped
from core.domain.federation.scim.tokens import ScimExchange, ScimHolder, shown_body, shown_path, shown_query, shown_reason
from core.domain.identifiers import ScimExchangeId
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.calls import Request
from entrypoints.http.machinery.errors import scim_type_of

log = structlog.get_logger()

# In bytes. Decoding a longer body for the record would take too much time.
_LONGEST_BODY: Final = 32 << 10
_MOST_FIELDS: Final = 20
_LONGEST_METHOD: Final = 16
_STATING: Final = frozenset({"POST", "PUT", "PATCH"})


def recording(request: Request, holder: ScimHolder, postern: Postern) -> Callable[[int, Refusal | None], None]:
    def record(status: int, refusal: Refusal | None) -> None:
        postern.federation.scim_recorder.record(
            ScimExchange(
                id=ScimExchangeId(postern.foundation.ids.new()),
                organization=holder.organization,
                token=holder.token,
                token_name=holder.name,
                method=request.method[:_LONGEST_METHOD],
                path=shown_path(request.path),
                query=shown_query(_query(request.query_string)),
                request=_body(request.body),
                status=status,
                scim_type=None if refusal is None else scim_type_of(refusal),
                reason=_dropped(request, holder) if refusal is None else shown_reason(refusal.message),
                occurred_at=postern.foundation.clock.now(),
            )
        )

    def tell(status: int, refusal: Refusal | None) -> None:
        try:
            record(status, refusal)
        except Exception:
            # The request has its answer already, so a failed record changes nothing for the directory.
            log.exception("scim_exchange_not_recorded")

    return tell


def _query(encoded: bytes) -> dict[str, str]:
    try:
        return dict(parse_qsl(encoded.decode("ascii"), keep_blank_values=True, errors="replace", max_num_fields=_MOST_FIELDS))
    except ValueError:
        return {}


def _dropped(request: Request, holder: ScimHolder) -> str | None:
    """The line about what a request stated of a person that is not kept here."""
    states = "/Users" in request.path and request.method in _STATING
    names = dropped(_decoded(request.body), holder.mapping) if states else ()
    return f"Not kept here: {', '.join(names)}" if names else None


def _body(sent: bytes) -> Any:
    """The body as the record shows it. None when the request has no body, or a body that is too long or cannot be decoded."""
    decoded = _decoded(sent)
    return None if decoded is None else shown_body(decoded)


def _decoded(sent: bytes) -> Any:
    if not sent or len(sent) > _LONGEST_BODY:
        return None
    try:
        return msgspec.json.decode(sent)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None

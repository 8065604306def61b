"""Metadata: an object that applications keep with an organization, a service or a user of a service. Postern only keeps it. No token has
it, and only those who may change it see it.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from core.domain.errors import BadRequest
from core.domain.json import Json

MOST_BYTES: Final = 4096
DEEPEST: Final = 5

Metadata = Mapping[str, Json]


def checked_metadata(given: Metadata) -> Metadata:
    """Raises `BadRequest` for an object that is too large, or nested too deeply."""
    if _depth(given) > DEEPEST:
        raise BadRequest(
            f"metadata: at most {DEEPEST} objects and lists inside each other", words="metadata_nested", values={"most": DEEPEST}
        )
    size = len(json.dumps(given, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"))
    if size > MOST_BYTES:
        raise BadRequest(f"metadata: at most {MOST_BYTES} bytes of JSON, not {size}", words="json_too_large", values={"most": MOST_BYTES})
    return given


def same_metadata(one: Metadata | None, other: Metadata | None) -> bool:
    """As JSON, where `true` and 1 differ."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _depth(value: Json, above: int = 0) -> int:
    """Counts no further than one level too many."""
    if isinstance(value, str) or not isinstance(value, Mapping | Sequence) or above > DEEPEST:
        return above
    inner = value.values() if isinstance(value, Mapping) else value
    return max((_depth(one, above + 1) for one in inner), default=above + 1)

"""The type of JSON values, and how times are written in them."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

Scalar = str | int | float | bool | None
Json = Scalar | Sequence["Json"] | Mapping[str, "Json"]


def timestamp(at: datetime) -> str:
    """As every answer writes times: in UTC, with a Z."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")

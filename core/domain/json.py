"""The type of JSON values, and the form of times in JSON."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

Scalar = str | int | float | bool | None
Json = Scalar | Sequence["Json"] | Mapping[str, "Json"]


def timestamp(at: datetime) -> str:
    """The form of times in every answer: in UTC, with a Z."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")

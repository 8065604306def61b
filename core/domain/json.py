"""The type of what JSON can say."""

from collections.abc import Mapping, Sequence

Scalar = str | int | float | bool | None
Json = Scalar | Sequence["Json"] | Mapping[str, "Json"]

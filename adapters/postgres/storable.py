"""Text, JSON and network addresses in a form that PostgreSQL can store. Storing a text must never fail because of characters that a person
typed or another server sent.
"""

import ipaddress
import math
from collections.abc import Mapping
from functools import lru_cache

from core.domain.formats import Json


def storable(value: Json) -> Json:
    """The value, with replacements for everything that jsonb refuses."""
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, Mapping):
        return {storable_text(name): storable(inner) for name, inner in value.items()}
    return [storable(inner) for inner in value]


def storable_text(text: str) -> str:
    """Without NUL, and without halves of surrogate pairs."""
    if "\0" in text:
        text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


@lru_cache(maxsize=1024)
def storable_address(text: str | None) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """None for text that is not an address. The zone of a link-local address is dropped: it has a meaning only on its own machine, and inet
    has no room for it.
    """
    if text is None:
        return None
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None

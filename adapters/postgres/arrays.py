"""Arrays as text in PostgreSQL's own form. A list would cost more time on the event loop's thread, because psycopg converts each element of
a list separately.
"""

from collections.abc import Iterable

from adapters.postgres.storable import storable_text


def array(words: Iterable[str]) -> str:
    """An array of words that need no quotes: numbers, times, ids, hexadecimal digits. The statement casts the array to its type."""
    return "{" + ",".join(words) + "}"


def array_of_texts(texts: Iterable[str]) -> str:
    """An array of any texts. The function replaces characters that PostgreSQL cannot store."""
    return "{" + ",".join([_quoted(text) for text in texts]) + "}"


def _quoted(text: str) -> str:
    escaped = storable_text(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'

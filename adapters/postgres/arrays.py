"""Arrays in PostgreSQL's own text form, instead of a list. psycopg converts each element of a list separately, on the
event loop's thread.
"""

from collections.abc import Iterable

from adapters.postgres.storable import storable_text


def array(words: Iterable[str]) -> str:
    """For words that need no quotes: numbers, times, ids, hexadecimal digits. The statement gives the type."""
    return "{" + ",".join(words) + "}"


def array_of_texts(texts: Iterable[str]) -> str:
    """For any texts. Characters that PostgreSQL cannot keep are replaced."""
    return "{" + ",".join([_quoted(text) for text in texts]) + "}"


def _quoted(text: str) -> str:
    escaped = storable_text(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'

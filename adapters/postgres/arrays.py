"""Arrays in PostgreSQL's own words: one text instead of a list. Of a list psycopg turns each element over by itself, in up to 16 µs, on the
event loop's thread.
"""

from collections.abc import Iterable


def array(words: Iterable[str]) -> str:
    """Of words that need no quotes: numbers, times, ids, hexadecimal digits. The statement says of which type it is."""
    return "{" + ",".join(words) + "}"

"""The text of a refusal on a page, in the reader's language."""

from math import ceil

from core.domain.errors import NotFound, RateLimited
from entrypoints.http.machinery.error_shapes import Refused, message_of
from entrypoints.http.machinery.errors import NotAsDeclared
from ports.texts import Text


def in_words(refused: Refused, text: Text) -> str:
    kind = refused if isinstance(refused, type) else type(refused)
    if issubclass(kind, NotAsDeclared):
        # The message names a field of the API, which means nothing to a person.
        return text("refusals.not_as_declared")
    if kind is NotFound and message_of(refused) == NotFound.text:
        return text("refusals.no_such_page")
    if isinstance(refused, RateLimited):
        words = "rate_limited" if refused.words == refused.code.lower() else refused.words
        return text(f"refusals.{words}", count=max(1, ceil(refused.retry_after / 60)))
    if isinstance(refused, type):
        return text(f"refusals.{refused.code.lower()}")
    return text(f"refusals.{refused.words}", **refused.values)

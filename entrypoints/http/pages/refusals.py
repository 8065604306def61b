"""The text of a refusal on a page, in the reader's language."""

from math import ceil

from core.domain.errors import NotFound, RateLimited
from core.domain.identity.registering import MailsHeldBack
from entrypoints.http.machinery.errors import NotAsDeclared, Refused, message_of
from ports.texts import Text


def in_words(refused: Refused, text: Text) -> str:
    kind = refused if isinstance(refused, type) else type(refused)
    if issubclass(kind, NotAsDeclared):
        # The message names a field of the API, which means nothing to a person.
        return text("refusals.not_as_declared")
    if kind is NotFound and message_of(refused) == NotFound.text:
        return text("refusals.no_such_page")
    if isinstance(refused, RateLimited):
        minutes = max(1, ceil(refused.retry_after / 60))
        if isinstance(refused, MailsHeldBack):
            return text("refusals.mails_held_back", count=minutes)
        return text("refusals.rate_limited", count=minutes)
    if isinstance(refused, type):
        return text(f"refusals.{refused.code.lower()}")
    return text(f"refusals.{refused.words}", **refused.values)

"""The texts of pages and mails, in every language that we speak."""

from collections.abc import Hashable
from datetime import datetime
from typing import Protocol

from core.domain.languages import Language


class Text(Hashable, Protocol):
    """The texts of one language, by their keys: `text("sign_in.title")`."""

    @property
    def language(self) -> Language: ...

    def __call__(self, key: str, **values: object) -> str:
        """The text, with the values in its placeholders; moments among them are told in words. `count` also chooses between singular and
        plural. A text that the language lacks is told in English. Raises `LookupError` for a key that English lacks, too, or a value that
        is missing. That is a bug, and a test of ours finds it first.
        """

    def moment(self, at: datetime) -> str:
        """Date and time in words, with the time zone."""

    def ago(self, at: datetime, now: datetime) -> str:
        """How long ago that was, in the one unit that says enough: "3 minutes ago"."""


class Texts(Protocol):
    def of(self, language: Language) -> Text:
        """As plain text."""

    def html(self, language: Language) -> Text:
        """As HTML: what texts and values contain is escaped, unless a value is marked as HTML already."""

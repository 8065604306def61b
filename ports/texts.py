"""The texts of pages and mails in every language, and the branding of organizations."""

from collections.abc import Hashable, Iterable, Mapping
from datetime import datetime
from typing import Protocol

from core.domain.branding import Branding
from core.domain.identifiers import UserId
from core.domain.languages import Language
from core.domain.texts.own_texts import InstallationWords, OwnTexts
from core.domain.texts.rules import FormerDefaults
from core.frozen import Frozen


class Text(Hashable, Protocol):
    """The texts of one language, by their keys: `text("sign_in.title")`."""

    @property
    def language(self) -> Language: ...

    def __call__(self, key: str, **values: object) -> str:
        """The text, with the values in its placeholders; moments among the values are told in words. `count` also chooses between singular
        and plural. If the language lacks the text, the English one is returned. Raises `LookupError` for a key that English lacks, too, or
        for a missing value. Both are bugs, and a test of ours finds them first.
        """

    def isolated(self, value: object) -> str:
        """A value that stands alone among our words, such as a name in the title of a page. It runs as its own letters do, and turns
        nothing around it. The values of a text are isolated anyway.
        """

    def moment(self, at: datetime) -> str:
        """Date and time in words, with the time zone."""

    def listed(self, things: Iterable[str]) -> str:
        """The things one behind the other, with the comma of the language between them. As plain text."""

    def ago(self, at: datetime, now: datetime) -> str:
        """How long ago `at` was, in the one unit that says enough: "3 minutes ago". Of a moment to come, the moment itself; clocks that are
        a minute apart do not count.
        """


class WearingText(Text, Protocol):
    """A text over which own texts can stand."""

    def lay_over(self, *own: OwnTexts) -> None:
        """From now on these stand over the shipped texts, the first above the second. Whoever renders calls it before and, with nothing,
        afterwards: rendering waits for nothing, so no other page or mail can come between.
        """

    def paragraphs(self, key: str, **values: object) -> str:
        """A text whose own form may have paragraphs and links. It stands alone in an element for one paragraph: in HTML, `</p>` ends one
        and begins the next. A key of own texts alone is empty where there is none.
        """


class ShippedWords(Protocol):
    """Our texts as they are written, before any value stands in them."""

    def written(self, language: Language) -> Mapping[str, str]:
        """By key, with the English text where the language lacks one."""

    def former(self, language: Language) -> FormerDefaults:
        """Returns the former defaults of open texts that have the same meaning as the current ones."""


class Texts(Protocol):
    """Shipped files implement it, one for each language."""

    def of(self, language: Language) -> WearingText:
        """As plain text."""

    def html(self, language: Language) -> WearingText:
        """As HTML: texts and values are escaped, unless a value is marked as HTML already."""


class InstallationWordsLookup(Protocol):
    async def get(self) -> InstallationWords:
        """One statement and one round trip, outside any unit of work. Raises `Unavailable` and `Overloaded`."""


class SpokenInstallationWords(Protocol):
    """What this process knows of them: nothing at first."""

    @property
    def current(self) -> InstallationWords: ...

    def now(self) -> datetime:
        """Own texts may have a time from which and until which they stand."""


class LentBranding(Frozen):
    branding: Branding
    is_own: bool
    """Whether the person has an own tie to the organization: a membership, or a use of one of its services."""


class Brandings(Protocol):
    """Each method is one statement and one round trip, outside any unit of work."""

    async def find(self, organization: str) -> Branding | None:
        """By slug. None when there is no such organization, or it is not active."""

    async def find_for(self, organization: str, user: UserId) -> LentBranding | None:
        """For a mail to this person. Likewise."""

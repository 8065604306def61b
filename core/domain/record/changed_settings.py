"""Changed settings: for ten minutes after a change, a page shows what its settings were, and restores them."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from core.domain.errors import Conflict
from core.domain.identifiers import AuditEntryId, ChangedSettingId
from core.frozen import Frozen

KEPT_FOR: Final = timedelta(minutes=10)
MOST_LISTED: Final = 20
LARGEST: Final = 64 << 10
"""Characters of all texts before and after."""
FormText = str | Sequence[str]
"""A value as a form has it: a text, or several values that were ticked."""
FormTexts = Mapping[str, FormText]


class TakenBack(Frozen):
    """A change of settings that another change takes back."""

    entry: AuditEntryId
    """The audit entry of the change."""
    others: int
    """Other entries about the same thing, when the settings were compared. One more, and they have to be compared again."""


class SettingChange(Frozen):
    """What a page states about the settings that its request changes, by the names of the fields of its form. It is in the actor of the
    change, and the transaction of the change stores it beside the audit entry. Secrets are not in it.
    """

    id: ChangedSettingId
    place: str
    """The address of the page that shows the settings."""
    section: str
    before: FormTexts
    after: FormTexts
    takes_back: TakenBack | None = None


class ChangedSetting(Frozen):
    """A change that can be undone. The entries about the same object are counted: another one that came in between is seen, by whichever
    way it came.
    """

    id: ChangedSettingId
    entry: AuditEntryId
    section: str
    before: FormTexts
    after: FormTexts
    changed_at: datetime
    others: int
    earlier: int
    """How many of the other entries were there when this change was made."""

    @property
    def was_last(self) -> bool:
        """Whether nothing has changed the thing since."""
        return self.others <= self.earlier

    @property
    def taken_back(self) -> TakenBack:
        return TakenBack(self.entry, self.others)


class SettingsOvertaken(Conflict):
    """Another change of the thing came in between."""

    def __init__(self) -> None:
        super().__init__("The settings have been changed meanwhile", words="settings_overtaken")


def is_kept(texts: FormTexts, others: FormTexts) -> bool:
    """Whether the texts are few enough to be kept."""
    return sum(len(text) if isinstance(text, str) else sum(map(len, text)) for part in (texts, others) for text in part.values()) <= LARGEST

"""What events are called on pages, in the reader's language. The API has English labels of its own."""

from typing import Final

from core.domain.record.event_types import EVENT_TYPES, WEBHOOK_EVENTS
from ports.texts import Text

LABELLED: Final = frozenset((*(one.name for one in EVENT_TYPES if one.audited), *(one.name for one in WEBHOOK_EVENTS)))


def event_in_words(name: str, text: Text) -> str:
    """The event's label, or its name if the catalogue does not have the event."""
    return str(text(f"console.event.{name}")) if name in LABELLED else name

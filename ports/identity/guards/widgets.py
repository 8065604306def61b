"""The maker of a widget, who alone can say whether an answer of it counts."""

from typing import Protocol

from core.domain.identity.guards.widgets import WidgetPreset, WidgetVerdict


class WidgetSilent(Exception):
    """The maker gave no verdict: it did not answer in time, or with something else than a verdict, or does not know the secret."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class WidgetMaker(Protocol):
    @property
    def preset(self) -> WidgetPreset: ...

    @property
    def site_key(self) -> str:
        """What the page names. It is no secret."""

    async def verify(self, answer: str) -> WidgetVerdict:
        """Asks the maker once; an answer that was asked about before is refused there. Raises `WidgetSilent`, and `Overloaded` while too
        many others are asked about.
        """

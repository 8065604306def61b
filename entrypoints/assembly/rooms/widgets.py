"""The widget of another maker that pages show in place of our puzzle, if the operator names one."""

from urllib.parse import urlsplit

from adapters.postgres.identity.proofs.account_passwords import PostgresPuzzles
from adapters.widgets import VerifyingMaker, widget_presets
from core.domain.identity.guards.puzzles import MakerSeen
from core.usecases.identity.guards.puzzles import Widgets
from entrypoints.assembly.configured import widget_keys
from entrypoints.assembly.foundation import Foundation
from entrypoints.settings import Settings
from ports.identity.sign_in import WidgetMaker


def assemble_widgets(settings: Settings, foundation: Foundation) -> Widgets:
    """Raises `SettingsError`."""
    return Widgets(
        PostgresPuzzles(foundation.pool),
        foundation.keyring,
        _maker(settings, foundation),
        MakerSeen(),
        urlsplit(settings.public_url).hostname or "",
        foundation.metrics,
        foundation.ids,
        foundation.clock,
    )


def _maker(settings: Settings, foundation: Foundation) -> WidgetMaker | None:
    keys = widget_keys(settings)
    return None if keys is None else VerifyingMaker(foundation.outbound, widget_presets()[settings.widget], *keys)

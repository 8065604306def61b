"""The widget of another maker that pages show in place of our puzzle, if the operator names one."""

from urllib.parse import urlsplit

from adapters.postgres.identity.proofs.puzzles import PostgresPuzzles
from adapters.widgets.maker import VerifyingMaker
from adapters.widgets.presets import widget_presets
from core.domain.identity.guards.widgets import MakerSeen
from core.usecases.identity.guards.widgets import Widgets
from entrypoints.assembly.foundation import Foundation
from entrypoints.settings import Settings, SettingsError
from ports.identity.guards.widgets import WidgetMaker

OFF = "off"


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
    site_key, secret = settings.widget_site_key, settings.widget_secret
    if settings.widget == OFF:
        if site_key is not None or secret is not None:
            raise SettingsError("POSTERN_WIDGET is off: name the widget that POSTERN_WIDGET_SITE_KEY and POSTERN_WIDGET_SECRET are for")
        return None
    if not site_key or secret is None or not secret.reveal():
        raise SettingsError(f"POSTERN_WIDGET={settings.widget} needs POSTERN_WIDGET_SITE_KEY and POSTERN_WIDGET_SECRET")
    if not settings.puzzles:
        raise SettingsError(f"POSTERN_WIDGET={settings.widget} needs POSTERN_PUZZLES=on: puzzles stand in while its maker is away")
    return VerifyingMaker(foundation.outbound, widget_presets()[settings.widget], site_key, secret)

"""How long we wait for an event that must come. The limit ends what hangs; it measures nothing, because a machine may be busy."""

from typing import Final

PATIENCE: Final = 120.0

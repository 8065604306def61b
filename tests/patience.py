"""How long a test waits for an event that must come. The limit ends tests that hang; it measures nothing, because a machine may be busy."""

from typing import Final

PATIENCE: Final = 120.0
# For events that must come before the server's default settings would bring them by themselves, after ten seconds or more.
SOONER: Final = 8.0

"""How long a test waits for an event that must come. The limit ends tests that hang; it measures nothing, because a machine may be busy."""

from typing import Final

from ops import patience

# As long as the browsers and servers of `ops` wait that tests start.
PATIENCE: Final = patience.PATIENCE
# For events that must come before the server's default settings would bring them by themselves, after ten seconds or more.
SOONER: Final = 8.0

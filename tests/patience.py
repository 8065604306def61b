"""How long a test waits for what has to come. It ends what hangs, and measures nothing: a busy machine takes its time."""

from typing import Final

PATIENCE: Final = 30.0
# For what would come by itself after ten seconds or more, by the settings that a server has unless told otherwise.
SOONER: Final = 8.0

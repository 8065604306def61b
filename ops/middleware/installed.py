"""Where `make .venv/ready-node` puts the frameworks and libraries for Node, by npm, from the lock."""

from pathlib import Path
from typing import Final

INSTALLED: Final = Path(__file__).resolve().parent.parent.parent / ".venv" / "frameworks-node"

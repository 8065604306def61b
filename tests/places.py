"""Where things are in the checkout."""

from pathlib import Path

ROOT = Path(__file__).parent.parent
MIGRATIONS = ROOT / "adapters" / "postgres" / "migrations"

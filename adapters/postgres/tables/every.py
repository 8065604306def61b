"""Every table, by its name. Areas come before those that they stand on, as their rows go."""

from collections.abc import Mapping
from typing import Final

from adapters.postgres.tables import federation, foundation, identity, platform, record, services, tenancy
from adapters.postgres.tables.declaring import Moved, Table

TABLES: Final[Mapping[str, Table]] = {
    table.name: table for area in (platform, federation, services, tenancy, identity, record, foundation) for table in area.TABLES
}

MOVED: Final[Mapping[str, Moved]] = {name: table.moves for name, table in TABLES.items() if isinstance(table.moves, Moved)}
"""What moves with an organization."""

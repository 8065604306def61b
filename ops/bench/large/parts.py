"""What can be compared between the two installations."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from ops.bench.large.housekeeping import housekeeping
from ops.bench.large.routes import routes
from ops.bench.large.starting import starting
from ops.bench.large.twins import Twin
from ops.bench.large.verifying import verifying
from ops.bench.report import Figure

Part = Callable[[Twin, Twin], Awaitable[Sequence[Figure]]]

PARTS: Final[Mapping[str, Part]] = {"routes": routes, "starting": starting, "verifying": verifying, "housekeeping": housekeeping}

"""What nearly every use case takes from the machine: the time, new ids and new secrets."""

from core.frozen import Frozen
from ports.clock import Clock
from ports.ids import Ids
from ports.secrets import Secrets


class System(Frozen):
    """A use case that needs only one of the three may take that one alone."""

    clock: Clock
    ids: Ids
    secrets: Secrets

"""The installation as its operators see it: the processes that serve, the providers that are away, and the schema."""

from datetime import datetime

from core.frozen import Frozen


class ServingProcess(Frozen):
    """A process that serves, known by the connection on which it listens."""

    version: str
    """Empty for a process of a release that did not say it yet."""
    host: str
    """The address that it connects from. Empty for a connection through a socket of the machine."""
    since: datetime


class AwayProvider(Frozen):
    """An upstream provider to which a call has failed since the last one that succeeded."""

    provider: str
    """The provider's name, or its key for one of the installation's own."""
    organization: str
    """The slug of the organization whose provider it is. Empty for one of the installation."""
    failed_at: datetime


class InstallationState(Frozen):
    schema: str
    """The newest migration."""
    processes: tuple[ServingProcess, ...]
    providers: tuple[AwayProvider, ...]


class FirstStepsDone(Frozen):
    """The steps of a new installation that are done, as the database shows them."""

    organization: bool
    """There is an organization."""
    invitation: bool
    """Somebody besides the first person has come, or is invited."""
    application: bool
    """There is an application."""
    sign_in: bool
    """Somebody has signed in to an application."""

"""Turns: few do expensive work at a time, so that connections are left for everybody else."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from core.domain.identifiers import OrganizationId


class Turns(Protocol):
    """Fair turns in the process implement it."""

    def take(self, organization: OrganizationId) -> AbstractAsyncContextManager[None]:
        """Surrounds expensive work. One piece of an organization's work runs at a time, and only a few in all. Raises `Overloaded` when too
        many of the organization's wait already, or when the wait is too long.
        """

"""Turns: expensive work is done by few at a time, so that it leaves connections for everybody else."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from core.domain.identifiers import OrganizationId


class Turns(Protocol):
    def take(self, organization: OrganizationId) -> AbstractAsyncContextManager[None]:
        """Surrounds expensive work: one of an organization's at a time, and only a few in all. Raises `Overloaded` when too many of the
        organization's wait already, or the wait is too long.
        """

"""Turns: what is dear is done by few at a time, so that it leaves connections to everybody else."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from core.domain.identifiers import OrganizationId


class Turns(Protocol):
    def take(self, organization: OrganizationId) -> AbstractAsyncContextManager[None]:
        """Around what is dear: one of an organization's at a time, and few of all. Raises `Overloaded` when too many of its own wait
        already, or the wait is too long.
        """

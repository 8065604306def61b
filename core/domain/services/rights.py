"""Rights: what a person may do in a service, by the service's roles that the person holds. Postern tells the rights, and the application
decides by them.
"""

from collections.abc import Collection, Mapping
from typing import Self

from core.frozen import Frozen


class ServiceRights(Frozen):
    """The slugs of the roles that a person holds in a service, and the keys of the permissions that these roles have. Both are sorted."""

    roles: tuple[str, ...] = ()
    permissions: tuple[str, ...] = ()

    @classmethod
    def by(cls, roles: Mapping[str, Collection[str]]) -> Self:
        """The rights that come with these roles: the permissions of each by its slug."""
        return cls(tuple(sorted(roles)), tuple(sorted(frozenset().union(*roles.values()))))

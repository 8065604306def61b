"""An operator at the host, who plans and applies documents. The operator does in each organization what its owner may do, and needs no
fresh proof. Operators alone make organizations, for owners whom they name.
"""

from collections.abc import Mapping
from typing import Any

from core.domain.errors import BadRequest, Refusal
from core.domain.mail import Email
from core.domain.tenancy.members import Member
from entrypoints.bootstrap import Postern
from entrypoints.cli.operating import for_owner
from entrypoints.cli.verbs.running import OperatorsRequest
from entrypoints.failures import USAGE, StartFailed
from entrypoints.http.machinery.callers import MemberRule
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.routes.configuration.acting import DocumentCaller


class WrongOwner(StartFailed):
    status = USAGE


class DocumentOperator(DocumentCaller):
    # Most of a change's time is waiting for the database's disk.
    at_once = 8

    def __init__(self, postern: Postern, owners: Mapping[str, Email]) -> None:
        super().__init__(postern, OperatorsRequest("POST", "/", b"", {}), None)
        self._owners = owners
        self._members: dict[str, Member] = {}

    async def caller_in(self, endpoint: Endpoint, organization: str) -> Any:
        if not isinstance(endpoint.caller, MemberRule):
            return None
        if organization not in self._members:
            try:
                self._members[organization] = await for_owner(self.postern, organization)
            except StartFailed as failure:
                raise BadRequest(str(failure)) from None
        return self._members[organization]

    async def may_name(self, organization: str) -> Refusal | None:  # noqa: ARG002 - an operator may name all
        return None

    async def may(self, endpoint: Endpoint, organization: str) -> Refusal | None:  # noqa: ARG002 - an operator may do everything
        return None

    def may_found(self, slug: str) -> Refusal | None:
        return (
            None if slug in self._owners else BadRequest(f"organization not found; to create it, specify its owner: --owner {slug}=EMAIL")
        )

    async def found(self, slug: str, name: str) -> str:
        made = await self.postern.tenancy.organizations.found_for(self._owners[slug], slug, name, self.request.actor)
        return str(made.id)


def owners_of(postern: Postern, given: list[str]) -> Mapping[str, Email]:
    """Raises `WrongOwner`."""
    owners = {}
    for one in given:
        slug, is_there, address = one.partition("=")
        if not is_there:
            raise WrongOwner(f"--owner {one}: write SLUG=EMAIL")
        owners[slug] = postern.foundation.email_syntax.parse(address)
    return owners

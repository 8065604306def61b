"""An operator at the host, who plans and applies documents. The operator does in each organization what its owner may do, and needs no
fresh proof. Operators alone make organizations, for owners whom they name.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from core.domain.email import Email
from core.domain.errors import BadRequest, Refusal
from core.domain.secrets import Secret
from core.domain.tenancy.members import Member
from entrypoints.bootstrap import Postern
from entrypoints.cli.operating import for_owner
from entrypoints.cli.verbs.running import OperatorsRequest
from entrypoints.failures import USAGE, StartFailed
from entrypoints.http.machinery.callers import MemberRule
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.routes.configuration.acting import DocumentCaller

_LARGEST_SECRET = 64 << 10


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
            None if slug in self._owners else BadRequest(f"there is no such organization; to make it, name its owner: --owner {slug}=EMAIL")
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


def resolve(steps: tuple[str, ...], value: Any) -> Secret | None:  # noqa: ARG001 - as `Resolve`
    """A secret in a file is a reference, which is resolved here, where the command runs. Raises `ValueError`, which never shows a value."""
    if value is msgspec.UNSET:
        raise LookupError
    if value is None:
        return None
    if isinstance(value, str) and value.startswith("env:"):
        found = os.environ.get(value.removeprefix("env:"))
        if not found:
            raise ValueError(f"{value}: this environment variable is not set")
        return Secret(found)
    if isinstance(value, str) and value.startswith("file:"):
        return Secret(_in_file(value.removeprefix("file:"), value))
    raise ValueError("a file holds no secrets: write env:NAME or file:/path")


def _in_file(path: str, value: str) -> str:
    try:
        with Path(path).open("rb") as file:
            text = file.read(_LARGEST_SECRET + 1).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{value}: {getattr(error, 'strerror', None) or 'the file is not UTF-8'}") from None
    if len(text) > _LARGEST_SECRET:
        raise ValueError(f"{value}: a secret has at most {_LARGEST_SECRET >> 10} KiB")
    # Editors and `echo` end a file with a line break.
    return text.removesuffix("\n").removesuffix("\r")

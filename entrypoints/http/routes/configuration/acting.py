"""The caller who applies a configuration file. Each change follows the caller rule of its endpoint, as a request for it would."""

from typing import Any

from core.domain.errors import Forbidden, NotFound, Refusal
from core.domain.identifiers import ManagementKeyId, UserId
from core.domain.identity.callers import Caller
from core.domain.tenancy.management_keys import CLOSED, ManagementKeyHolder
from core.domain.tenancy.members import Member
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import PLATFORM_OWNER, MemberRule
from entrypoints.http.machinery.calls import Request
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.machinery.step_up import require_fresh_proof
from entrypoints.http.routes.platform.governance import list_platform_organizations

NOT_OF_YOURS = "only this organization's own people and management API keys, and the operator's command, can read or set this"
OF_THE_PLATFORM = "only platform owners and management API keys of the platform can set this"
FOUNDED_BY_COMMAND = "organization not found: only the operator's command creates one, with --owner"
LACKS = "this management API key cannot set this: it needs the capability {}"


class DocumentCaller:
    """A person or a management key, of one organization or of the platform."""

    at_once = 1
    """How many organizations are worked on at once. A request gets one connection to the database at a time, like every other."""

    def __init__(self, postern: Postern, request: Request, caller: Member | Caller | ManagementKeyHolder | None) -> None:
        self.postern = postern
        self.request = request
        self._caller = caller

    @property
    def person(self) -> UserId | None:
        caller = self._caller
        return caller.person if isinstance(caller, Member) else caller.user if isinstance(caller, Caller) else None

    @property
    def key(self) -> ManagementKeyId | None:
        caller = self._caller
        return caller.key_id if isinstance(caller, Member) else caller.key if isinstance(caller, ManagementKeyHolder) else None

    async def caller_in(self, endpoint: Endpoint, organization: str) -> Any:
        """The caller of this endpoint, for an object of this organization. Raises the refusals of the endpoint's rule, except that a fresh
        proof is not asked for.
        """
        caller = self._caller
        if isinstance(endpoint.caller, MemberRule):
            if not isinstance(caller, Member) or caller.organization_slug != organization:
                raise Forbidden(NOT_OF_YOURS)
        elif endpoint.caller is PLATFORM_OWNER and isinstance(caller, Member):
            raise Forbidden(OF_THE_PLATFORM)
        if self.key is not None:
            _require_opened(endpoint, caller)
        else:
            endpoint.caller.require(caller)  # type: ignore[attr-defined]  # both rules have it
        return caller

    async def prove(self, endpoint: Endpoint) -> None:
        """Raises `ReauthenticationRequired` if the endpoint asks for a fresh proof and the person has none."""
        if endpoint.step_up is not None and self.key is None:
            await require_fresh_proof(self.request, self.postern, endpoint.step_up)

    async def count(self, endpoint: Endpoint) -> None:
        """Counts a change under the limits of its endpoint. Raises `RateLimited`."""
        if endpoint.limits:
            await self.request.count(*endpoint.limits)

    def may_found(self, slug: str) -> Refusal | None:  # noqa: ARG002 - the operator's command asks for the organization's owner
        """None if the caller may make this organization; otherwise the reason."""
        return Forbidden(FOUNDED_BY_COMMAND)

    async def found(self, slug: str, name: str) -> str:  # noqa: ARG002 - as above
        """Makes an organization, and returns its id. Raises what `may_found` returns."""
        raise Forbidden(FOUNDED_BY_COMMAND)

    async def may_name(self, organization: str) -> Refusal | None:
        """None if the caller may name the organization in a document at all; otherwise the reason, whether or not it exists."""
        caller = self._caller
        if isinstance(caller, Member):
            return None if caller.organization_slug == organization else Forbidden(NOT_OF_YOURS)
        return await self.may(list_platform_organizations, organization)

    async def may(self, endpoint: Endpoint, organization: str) -> Refusal | None:
        """None if the caller may call the endpoint; otherwise the reason."""
        try:
            await self.caller_in(endpoint, organization)
        except (Forbidden, NotFound) as refusal:
            return refusal
        return None


def _require_opened(endpoint: Endpoint, caller: Any) -> None:
    """As `ManagementKeyRule.admit`, for a key that has been admitted already. Raises `Forbidden`."""
    if endpoint.keys is None:
        raise Forbidden(CLOSED)
    held = caller.platform_capabilities if isinstance(caller, ManagementKeyHolder) else caller.capabilities
    for needed in endpoint.keys.needed:
        if needed not in held:
            raise Forbidden(LACKS.format(needed))

"""The audit log: read by those who may, linked in the background, verified by the operator."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from core.domain.audit import ACTIONS, Action, AuditEntry, AuditFilter, require_reachable
from core.domain.audit_chains import PLATFORM_CHAIN, ChainCheck, Finding, Head
from core.domain.errors import NotFound
from core.domain.identifiers import OrganizationId
from core.domain.pages import Listed, Page
from ports.audit import AuditChains, AuditLog, Backlog
from ports.server_secrets import ServerSecrets

PLATFORM: Final = "platform"
CHAIN_KEY: Final = "audit_chain"
# Of a chain that does not fit at all, that much says enough.
MOST_UNCHAINED: Final = 1000
# In one transaction of the linker; in one part of the verification.
LINKED_AT_ONCE: Final = 1000
READ_AT_ONCE: Final = 4000


@dataclass(frozen=True, slots=True)
class CheckedChain:
    """`name` is the organization's slug, or its id when it has none any more."""

    chain: OrganizationId
    name: str
    head: Head
    links: int
    forgotten: int
    """Entries whose address, user agent and names are no longer there, as it may be."""


class Audit:
    def __init__(self, log: AuditLog, chains: AuditChains, server_secrets: ServerSecrets) -> None:
        self._log = log
        self._chains = chains
        self._server_secrets = server_secrets

    async def list(self, organization: OrganizationId, wanted: AuditFilter, page: Page) -> Listed[AuditEntry]:
        if wanted.is_empty:
            return await self._log.newest(organization, page)
        require_reachable(page)
        return await self._log.matching(organization, wanted, page)

    @staticmethod
    def actions() -> Sequence[Action]:
        """All that can stand in an organization's log."""
        return [action for action in ACTIONS if not action.of_platform]

    async def link(self) -> int | None:
        """Put the entries that wait, a batch of them, into their chains. Returns how many; None when another process is about it."""
        return await self._chains.link(await self._server_secrets.get(CHAIN_KEY), LINKED_AT_ONCE)

    async def backlog(self) -> Backlog:
        return await self._chains.backlog()

    async def chain_of(self, name: str, noted: Head | None = None) -> OrganizationId:
        """By the organization's id, which is all that is left of one that was deleted, or by its slug. The id comes first: anybody may
        found an organization whose slug is another's id. `noted` says that there was a chain, even if nothing is left of it. Raises
        `NotFound`.
        """
        if name == PLATFORM:
            return PLATFORM_CHAIN
        chain = _id(name)
        if chain is not None and await self._is_known(chain):
            return chain
        found = await self._chains.find(name)
        if found is None and noted is not None:
            found = chain
        if found is None:
            raise NotFound(f"There is no organization {name}, nor an entry of one")
        return found

    async def _is_known(self, chain: OrganizationId) -> bool:
        """Whether there are entries of it, in the chain, on their way there or past it, or the organization itself."""
        listed = await self._log.newest(chain, Page(limit=1))
        return listed.total > 0 or bool(await self._chains.unchained(chain, 1)) or chain in await self._chains.slugs()

    async def verify(
        self,
        found: Callable[[str, Finding], None],
        checked: Callable[[CheckedChain], None],
        *,
        only: OrganizationId | None = None,
        name: str | None = None,
        noted: Head | None = None,
    ) -> None:
        """Walk along the chains, or `only` the one of this name, and say all that is wrong with them, with the name of the chain, and of
        each where it ends. `noted` is where that one ended at some time before.
        """
        names = await self._names() if only is None else {only: name or str(only)}
        key = await self._server_secrets.get(CHAIN_KEY)

        def told(findings: Sequence[Finding]) -> None:
            for finding in findings:
                found(_name(names, finding.chain), finding)

        chain = await self._chains.next_chain(None) if only is None else only
        while chain is not None:
            check = ChainCheck(key, chain, noted)
            since = 0
            while links := await self._chains.links(chain, since, READ_AT_ONCE):
                for link in links:
                    told(check.take(link))
                since = links[-1].sequence + 1
            told(check.end())
            checked(CheckedChain(chain, _name(names, chain), check.head, check.links, check.forgotten))
            chain = await self._chains.next_chain(chain) if only is None else None
        told(await self._chains.unchained(only, MOST_UNCHAINED))

    async def _names(self) -> Mapping[OrganizationId, str]:
        return {**(await self._chains.slugs()), PLATFORM_CHAIN: PLATFORM}


def _id(name: str) -> OrganizationId | None:
    """As ids are printed. `UUID` reads more than that, and thirty-two digits are somebody's slug."""
    try:
        chain = UUID(name)
    except ValueError:
        return None
    return OrganizationId(chain) if str(chain) == name.lower() else None


def _name(names: Mapping[OrganizationId, str], chain: OrganizationId) -> str:
    return names.get(chain, str(chain))

"""The audit log: read by people with permission, linked into chains in the background, verified by the operator."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from functools import partial
from typing import Final
from uuid import UUID

from core.domain.errors import NotFound, found
from core.domain.identifiers import AuditEntryId, OrganizationId
from core.domain.pages import Listed, Page
from core.domain.record.audit import AuditEntry, AuditFilter, require_reachable
from core.domain.record.audit_chains import PLATFORM_CHAIN, ChainCheck, ChainFinding, ChainHead, StoredLink
from core.domain.record.audit_progress import Reached, opened, sealed
from core.domain.record.event_types import AUDIT_ACTIONS, EventType
from core.frozen import Frozen
from ports.progress import ProgressDisplay, unseen
from ports.record.audit import AuditChains, AuditLog, Backlog
from ports.server_secrets import ServerSecrets

PLATFORM: Final = "platform"
CHAIN_KEY: Final = "audit_chain"
# The largest number of faults that one chain reports.
MOST_UNCHAINED: Final = 1000
# The number of entries in one transaction of the linker, and in one part of the verification.
LINKED_AT_ONCE: Final = 1000
READ_AT_ONCE: Final = 4000
CHAINS_AT_ONCE: Final = 100


class CheckedChain(Frozen):
    """`name` is the organization's slug, or its id when the organization no longer exists."""

    chain: OrganizationId
    name: str
    head: ChainHead
    links: int
    forgotten: int
    """Entries whose address, user agent and names have been forgotten, which is allowed."""


class OwnCheck(Frozen):
    """The check of one organization's chain, for its people."""

    checked: CheckedChain
    findings: Sequence[ChainFinding]


class Audit(Frozen):
    log: AuditLog
    chains: AuditChains
    server_secrets: ServerSecrets

    async def list(self, organization: OrganizationId, wanted: AuditFilter, page: Page) -> Listed[AuditEntry]:
        if wanted.is_empty:
            return await self.log.newest(organization, page)
        require_reachable(page)
        return await self.log.matching(organization, wanted, page)

    async def get(self, organization: OrganizationId, entry: AuditEntryId) -> AuditEntry:
        """Raises `NotFound`, also for an entry of another organization."""
        return found(await self.log.find(organization, entry), "There is no such entry")

    @staticmethod
    def actions() -> Sequence[EventType]:
        """Returns all types of events that an organization's log can contain."""
        return AUDIT_ACTIONS

    async def link(self) -> int | None:
        """Links a batch of waiting entries into their chains. Returns how many, or None when another process is linking."""
        return await self.chains.link(await self.server_secrets.get(CHAIN_KEY), LINKED_AT_ONCE)

    async def backlog(self) -> Backlog:
        return await self.chains.backlog()

    async def chain_of(self, name: str, noted: ChainHead | None = None) -> OrganizationId:
        """Finds a chain by the organization's id, which is all that is left of a deleted organization, or by its slug. The id is tried
        first, because anyone may found an organization whose slug is another organization's id. `noted` says that there was a chain, even
        if nothing is left of it. Raises `NotFound`.
        """
        if name == PLATFORM:
            return PLATFORM_CHAIN
        chain = _id(name)
        if chain is not None and await self._is_known(chain):
            return chain
        found = await self.chains.find(name)
        if found is None and noted is not None:
            found = chain
        if found is None:
            raise NotFound(f"There is no organization {name}, and no entry of one")
        return found

    async def _is_known(self, chain: OrganizationId) -> bool:
        """Returns whether the organization exists, or any entry of its chain: linked, waiting or outside the chain."""
        listed = await self.log.newest(chain, Page(limit=1))
        return listed.total > 0 or bool(await self.chains.unchained(chain, 1)) or chain in await self.chains.slugs()

    async def last(self, action: str) -> datetime | None:
        """Returns when the action was last recorded in the platform's log."""
        return await self.log.last(action)

    async def verify(
        self,
        found: Callable[[str, ChainFinding], None],
        checked: Callable[[CheckedChain], None],
        *,
        only: OrganizationId | None = None,
        name: str | None = None,
        noted: ChainHead | None = None,
        heads: Mapping[OrganizationId, ChainHead] | None = None,
        readers: int = 1,
        begin: Reached | None = None,
        reached: Callable[[ChainCheck], None] = lambda _check: None,
        progress: ProgressDisplay = unseen,
    ) -> None:
        """Walks along all chains, or `only` the chain with this name. Reports every fault with the name of its chain, and the end of each
        chain. `noted` is the end of that one chain at an earlier time; `heads` are the ends of all chains at an earlier time. As many
        parts as there are `readers` are read at once, of one chain or of two, and checked in their order. `begin` is where a run before
        came to, and `reached` hears of each part that was checked. Raises `CannotOpen` when the key ring does not open the secret of the
        chains.
        """
        about = await self.chains.about(only) or None
        names = await self._names() if only is None else {only: name or str(only)}
        key = await self.server_secrets.get(CHAIN_KEY)

        def say(findings: Sequence[ChainFinding]) -> None:
            for finding in findings:
                found(_name(names, finding.chain), finding)

        ends = dict(heads or {})
        with progress("Verifying the chains", about, "entries") as advance:

            def take(check: ChainCheck, links: Sequence[StoredLink]) -> None:
                for link in links:
                    say(check.take(link))
                advance(len(links))
                reached(check)

            async with aclosing(self._begun(only, begin, readers)) as chains:
                async for chain, parts in chains:
                    check = ChainCheck(key, chain, ends.pop(chain, noted))
                    if begin is not None:
                        check.go_on_after(begin.head, begin.links, begin.forgotten)
                        begin = None
                    await self._walk(chain, parts, readers, partial(take, check))
                    say(check.end())
                    checked(CheckedChain(chain, _name(names, chain), check.head, check.links, check.forgotten))
            for gone, end in ends.items():
                say(ChainCheck(key, gone, end).end())
        with progress("Looking for entries outside the chains", about, "entries") as advance:
            say(await self.chains.unchained(only, MOST_UNCHAINED, advance))

    async def _walk(
        self, chain: OrganizationId, parts: Sequence[Sequence[StoredLink]], readers: int, take: Callable[[Sequence[StoredLink]], None]
    ) -> None:
        """From these parts on to the end of the chain."""
        while parts[0]:
            adjoining = _adjoining(parts)
            for links in adjoining:
                take(links)
            left = parts[len(adjoining) :]
            if left and not any(left):
                break
            parts = await self.chains.parts(_places(chain, adjoining[-1][-1].sequence + 1, readers), READ_AT_ONCE)

    async def progress_of(self, reached: Reached) -> str:
        """What another run needs to go on there."""
        return sealed(await self.server_secrets.get(CHAIN_KEY), reached)

    async def progress_in(self, text: str, only: OrganizationId | None, noted: ChainHead | None, now: datetime) -> Reached:
        """Raises `BadRequest`, and `CannotOpen`."""
        return opened(await self.server_secrets.get(CHAIN_KEY), text, only, noted, now)

    async def _begun(
        self, only: OrganizationId | None, begin: Reached | None, readers: int
    ) -> AsyncGenerator[tuple[OrganizationId, Sequence[Sequence[StoredLink]]]]:
        """The chains in their order, each with its first parts. Most chains are short, so the second part of two says that there are no
        further links.
        """
        each = min(readers, 2)
        if begin is not None:
            yield begin.chain, await self.chains.parts(_places(begin.chain, begin.head.sequence, each), READ_AT_ONCE)
        elif only is not None:
            yield only, await self.chains.parts(_places(only, 0, each), READ_AT_ONCE)
        last = None if begin is None else begin.chain
        while only is None and (chains := await self.chains.next_chains(last, CHAINS_AT_ONCE)):
            for start in range(0, len(chains), at_once := max(1, readers // 2)):
                some = chains[start : start + at_once]
                parts = await self.chains.parts([place for chain in some for place in _places(chain, 0, each)], READ_AT_ONCE)
                for number, chain in enumerate(some):
                    yield chain, parts[number * each : (number + 1) * each]
            last = chains[-1]

    async def verify_own(self, organization: OrganizationId, most: int) -> OwnCheck | None:
        """Walks along the chain of one organization within a request. None when the log has more entries than `most`: `verify` has the
        time for those.
        """
        if (await self.log.newest(organization, Page(limit=1))).total > most:
            return None
        findings, ends = list[ChainFinding](), list[CheckedChain]()
        await self.verify(lambda _name, finding: findings.append(finding), ends.append, only=organization)
        return OwnCheck(ends[0], findings)

    async def _names(self) -> Mapping[OrganizationId, str]:
        return {**(await self.chains.slugs()), PLATFORM_CHAIN: PLATFORM}


def _places(chain: OrganizationId, since: int, count: int) -> Sequence[tuple[OrganizationId, int]]:
    """Of so many parts. The first link of a chain has the number 1; a link with a smaller one is a fault, and in the first part."""
    return [(chain, since), *((chain, max(since, 1) + READ_AT_ONCE * number) for number in range(1, count))]


def _adjoining(parts: Sequence[Sequence[StoredLink]]) -> Sequence[Sequence[StoredLink]]:
    """The first part, and those after it as long as each begins where the one before ended. Parts are read at different moments, and a
    part begins at the first link that is there. So what looks like a gap between two parts is read again.
    """
    adjoining = [parts[0]]
    for part in parts[1:]:
        if not part or part[0].sequence != adjoining[-1][-1].sequence + 1:
            break
        adjoining.append(part)
    return adjoining


def _id(name: str) -> OrganizationId | None:
    """Accepts only the printed form of an id. `UUID` accepts more forms, and thirty-two digits may be an organization's slug."""
    try:
        chain = UUID(name)
    except ValueError:
        return None
    return OrganizationId(chain) if str(chain) == name.lower() else None


def _name(names: Mapping[OrganizationId, str], chain: OrganizationId) -> str:
    return names.get(chain, str(chain))

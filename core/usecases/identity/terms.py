"""People accept terms, and read what they have accepted."""

from collections.abc import Sequence

from core.domain.errors import NotFound, Unauthorized
from core.domain.identifiers import OrganizationId, TermsId, UserId
from core.domain.identity.callers import Caller
from core.domain.identity.flows import Flow
from core.domain.identity.terms import Acceptance, OwnTerms, PendingTerms, TermsVersion, another_version, terms_accepted
from core.domain.record.events import Actor
from core.frozen import Frozen
from ports.identity.accounts import TermsStore
from ports.metrics import Metrics
from ports.system import Clock
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class TermsOfPeople(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: TermsStore
    metrics: Metrics
    clock: Clock

    async def own(self, user: UserId, named: str = "") -> OwnTerms:
        """`named`: the slug of the organization that the person asks about."""
        return await self.lookup.own(user, named)

    async def pending(self, user: UserId, organization: OrganizationId | None) -> Sequence[PendingTerms]:
        """What a page has to ask the person for on the way to this organization."""
        return await self.lookup.pending(user, organization)

    async def in_force(self, organization: str) -> Sequence[PendingTerms]:
        """What the page of a registration names: of the installation, and of the organization with this slug."""
        return await self.lookup.in_force(organization)

    async def named(self, organization: str, seen: Sequence[tuple[str, str]]) -> Sequence[TermsId]:
        """The terms that somebody accepts who registers, by the slug, empty for the installation's, and the version that they have read.
        Raises `Conflict` for others than those in force.
        """
        standing = {(one.organization_slug, one.version): one.id for one in await self.lookup.in_force(organization)}
        if any(one not in standing for one in seen):
            raise another_version()
        return [standing[one] for one in seen]

    async def shown(self, organization: str, ids: Sequence[TermsId]) -> Sequence[TermsId]:
        """Of the versions that the form of a registration has sent, those that its page names. Where others follow meanwhile, the first
        sign-in asks; and nobody without an account accepts anything of other organizations, which would stand in their logs.
        """
        return [one.id for one in await self.lookup.in_force(organization) if one.id in ids]

    async def accept(self, caller: Caller, organization: str, version: str, actor: Actor) -> None:
        """Accept exactly the version that the person has read; with an empty slug, the installation's. Accepted before, it stays as it was.
        Raises `NotFound` when the person has nothing to accept there, and `Conflict` when another version is in force.
        """
        async with self.unit_of_work() as uow:
            await _require_living(uow, caller)
            terms = await uow.terms.find_version_for_update(caller.user, organization)
            if terms is None:
                raise _unknown()
            if terms.version != version:
                raise another_version()
            accepted = await self._accept(uow, caller, [terms], actor)
            await uow.commit()
        self._count(accepted)

    async def accept_shown(self, caller: Caller, shown: Sequence[TermsId], actor: Actor, entered: OrganizationId | None = None) -> None:
        """Accept what a page has shown, by the ids of the versions. `entered`: the organization that the page's flow leads to. Raises
        `NotFound` when one is not the person's to accept, and `Conflict` when another version of one has followed.
        """
        async with self.unit_of_work() as uow:
            await _require_living(uow, caller)
            terms = await uow.terms.find_own_for_update(caller.user, shown, entered)
            if len(terms) < len(set(shown)):
                raise _unknown()
            if any(one.ended_at is not None for one in terms):
                raise another_version()
            accepted = await self._accept(uow, caller, terms, actor)
            await uow.commit()
        self._count(accepted)

    async def pass_on(self, flow: Flow) -> None:
        """The page of this flow has asked. It asks no more, however the person goes on."""
        async with self.unit_of_work() as uow:
            await uow.flows.have_asked_terms(flow.id)
            await uow.commit()

    async def _accept(self, uow: UnitOfWork, caller: Caller, terms: Sequence[TermsVersion], actor: Actor) -> Sequence[TermsVersion]:
        """Returns those that the person had not accepted before."""
        now = self.clock.now()
        new = set(await uow.terms.accept([Acceptance(caller.user, one.id, caller.session, now) for one in terms]))
        accepted = [one for one in terms if one.id in new]
        await uow.record_all([terms_accepted(one, caller.user, actor) for one in accepted])
        return accepted

    def _count(self, accepted: Sequence[TermsVersion]) -> None:
        for one in accepted:
            self.metrics.terms_accepted(one.keeper)


def _unknown() -> NotFound:
    return NotFound("There are no such terms to accept", words="terms_unknown")


async def _require_living(uow: UnitOfWork, caller: Caller) -> None:
    """Nobody deletes the account meanwhile. Raises `Unauthorized` when the session has ended."""
    if await uow.sessions.find_opener_for_update(caller.session, caller.user) is None:
        raise Unauthorized("The session has ended", words="session_ended")

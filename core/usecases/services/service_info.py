"""What an application's own servers read by API: the application, its users' rights, and usage figures."""

from collections.abc import Collection, Sequence

from core.domain.errors import Unauthorized, found
from core.domain.identifiers import UserId
from core.domain.record.events import Actor
from core.domain.services.api_keys import KeyHolder
from core.domain.services.rights import (
    MOST_SUBJECTS,
    SUBJECT_TYPE,
    AccessDecision,
    AccessQuestion,
    ExplainedRights,
    FoundSubjects,
    IncompleteQuestion,
    RightsVerdict,
    Semantic,
    decided,
    ends,
    is_about,
    subject_of,
    undecided,
    verdict,
)
from core.domain.services.service_users import LOOKED_BACK, ServiceAnalytics
from core.domain.services.services import Service, ServiceChange, changed, service_updated
from core.frozen import Frozen, replace
from ports.services.services import KeptMetadata, RightsStore, ServiceAnalyticsLookup, ServiceStore
from ports.system import Clock
from ports.unit_of_work import UnitOfWorkFactory


class ServiceInfo(Frozen):
    """Reads the metadata of the application and of its organization, and renames the application. The other facts about the application
    come from the holder of the API key.
    """

    unit_of_work: UnitOfWorkFactory
    lookup: ServiceStore
    clock: Clock

    async def metadata(self, holder: KeyHolder) -> KeptMetadata:
        """Of the key's service and of its organization. Raises `Unauthorized` when they were deleted since the request came in."""
        kept = await self.lookup.metadata(holder.service)
        if kept is None:
            raise Unauthorized("The API key is not valid")
        return kept

    async def rename(self, holder: KeyHolder, name: str | None, actor: Actor) -> Service:
        """Rename the service. With None the name stays as it is. Raises `BadRequest`."""
        async with self.unit_of_work() as uow:
            before = _own(await uow.services.hold(holder.organization, holder.service_slug), holder)
            if name is None:
                return before
            after = changed(before, ServiceChange(name=name), self.clock.now())
            if after is before:
                return before
            await uow.services.save(after)
            event = service_updated(before, after, actor)
            await uow.record(replace(event, details={**event.details, "api_key_id": str(holder.key)}))
            await uow.commit()
        return after


def _own(service: Service | None, holder: KeyHolder) -> Service:
    """The key's own service. Raises `Unauthorized` when the service and its keys were deleted since the request came in. By now another
    service may have the same slug, so the ids are compared.
    """
    if service is None or service.id != holder.service:
        raise Unauthorized("The API key is not valid")
    return service


class PeoplesRights(Frozen):
    """Explains and evaluates what users may do in the application.

    Each answer reads the assignments as they are now, so an application that asks sees each change at once.
    """

    lookup: RightsStore

    async def explain(self, holder: KeyHolder, user: UserId) -> ExplainedRights:
        """Raises `NotFound` for a person who is not a user of the service."""
        explained, _ = await self._ask(holder, user)
        return explained

    async def check(self, holder: KeyHolder, user: UserId, permission: str) -> RightsVerdict:
        """Raises `NotFound` for a person who is not a user of the service."""
        explained, known = await self._ask(holder, user, [permission])
        return verdict(explained, permission, is_known=permission in known)

    async def evaluate(
        self, holder: KeyHolder, questions: Sequence[AccessQuestion | IncompleteQuestion], semantic: Semantic = Semantic.EXECUTE_ALL
    ) -> Sequence[AccessDecision]:
        """The decisions, in the order of the questions, up to the one that ends them. Each user is looked up once."""
        actions = {question.action for question in questions if isinstance(question, AccessQuestion)}
        looked_up: dict[UserId, tuple[ExplainedRights, Collection[str]] | None] = {}
        decisions: list[AccessDecision] = []
        for question in questions:
            if isinstance(question, IncompleteQuestion):
                decisions.append(undecided(question))
            else:
                user = subject_of(question.subject_type, question.subject_id)
                if user is not None and user not in looked_up:
                    looked_up[user] = await self.lookup.explain(holder.service, user, actions)
                decisions.append(decided(question, holder, None if user is None else looked_up[user]))
            if ends(semantic, decisions[-1]):
                break
        return decisions

    async def actions(self, holder: KeyHolder, question: AccessQuestion) -> Sequence[str]:
        """The permissions that the subject has with the resource, sorted. Whoever is no user of the service has none."""
        user = subject_of(question.subject_type, question.subject_id)
        if user is None or not is_about(holder, question.resource_type, question.resource_id):
            return ()
        asked = await self.lookup.explain(holder.service, user)
        return () if asked is None else asked[0].rights.permissions

    async def subjects(self, holder: KeyHolder, question: AccessQuestion, after: UserId | None) -> FoundSubjects:
        """The users who have the permission with the resource, the oldest first."""
        if question.subject_type != SUBJECT_TYPE or not is_about(holder, question.resource_type, question.resource_id):
            return FoundSubjects((), None)
        return await self.lookup.holders(holder.service, question.action, after, MOST_SUBJECTS)

    async def _ask(self, holder: KeyHolder, user: UserId, permissions: Collection[str] = ()) -> tuple[ExplainedRights, Collection[str]]:
        return found(await self.lookup.explain(holder.service, user, permissions), "The service has no such user")


class ServiceAnalysis(Frozen):
    """Reads usage figures of the application."""

    lookup: ServiceAnalyticsLookup
    clock: Clock

    async def get(self, holder: KeyHolder) -> ServiceAnalytics:
        found = await self.lookup.find(holder.service, self.clock.now() - LOOKED_BACK)
        if found is None:
            # Since the request came in, the service was deleted together with its keys.
            raise Unauthorized("The API key is not valid")
        return found

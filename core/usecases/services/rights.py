"""What people may do in a service, for the service's own servers."""

from collections.abc import Collection, Sequence

from core.domain.errors import found
from core.domain.identifiers import UserId
from core.domain.services.access_evaluations import (
    MOST_SUBJECTS,
    SUBJECT_TYPE,
    AccessDecision,
    AccessQuestion,
    FoundSubjects,
    IncompleteQuestion,
    Semantic,
    decided,
    ends,
    is_about,
    subject_of,
    undecided,
)
from core.domain.services.api_keys import KeyHolder
from core.domain.services.rights import ExplainedRights, RightsVerdict, verdict
from core.frozen import Frozen
from ports.services.rights import RightsStore


class PeoplesRights(Frozen):
    """Each answer reads the assignments as they are now, so an application that asks sees each change at once."""

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

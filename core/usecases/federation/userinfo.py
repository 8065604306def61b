"""Userinfo: the claims about a person, for an application that shows its access token."""

from collections.abc import Mapping

from core.domain.claims import NO_FACTS, ClaimPlace, DescribedPerson, values
from core.domain.federation.oauth.oidc import person_said, standard_profile
from core.domain.identity.callers import Caller
from core.domain.json import Json
from core.frozen import Frozen
from ports.identity.facts import FactLookup


class Userinfo(Frozen):
    facts: FactLookup
    issuer: str

    async def claims(self, caller: Caller) -> Mapping[str, Json]:
        """The claims that the scopes of the session's application release. Only a service or a person with more than the account costs a
        round trip.
        """
        facts = NO_FACTS if caller.facts_of is None else await self.facts.find(caller.facts_of, caller.user)
        person = DescribedPerson(
            user=caller.user,
            email=caller.email,
            email_is_verified=caller.email_is_verified,
            organization=caller.organization_id,
            organization_slug=caller.organization,
            role=caller.role,
            profile=standard_profile(caller.profile, caller.language),
            facts=facts,
        )
        return values(person_said(caller.scopes or (), person, ClaimPlace.USERINFO, issuer=self.issuer))

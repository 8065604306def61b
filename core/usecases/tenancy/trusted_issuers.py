"""Trusted issuers: members set whose signed tokens take the place of a client secret, or of a management API key."""

from collections.abc import Sequence
from typing import Final

from core.domain.errors import BadRequest, Conflict, Forbidden, NotFound, found
from core.domain.identifiers import ManagementKeyId, ServiceId, TrustedIssuerId
from core.domain.identity.proofs import FreshProofNeeded
from core.domain.identity.upstream.jwt_assertions import AssertionRefused
from core.domain.record.events import Actor
from core.domain.tenancy.management_keys import named_capabilities
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.trusted_issuers import (
    MOST_OF_ONE,
    MOST_TRUSTED_ISSUERS,
    TrustedIssuer,
    TrustedIssuerChange,
    TrustedIssuerSettings,
    changed,
    made,
    trusted_issuer_created,
    trusted_issuer_deleted,
    trusted_issuer_updated,
)
from core.frozen import Frozen, replace
from core.usecases.tenancy.rights import hold_members, require_capability, require_may_grant
from ports.identity.upstream import AssertionSignatures
from ports.system import System
from ports.tenancy.members import ExistingTrustedIssuers, TrustedIssuerStore
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

_NOT_YOURS: Final = "Only the person whose management key it is can let workloads act with its rights: adopt the key first"


class TrustedIssuers(Frozen):
    """Every change locks the organization, and checks the caller's rights again. A rule is as good as a secret that its setter knows. So a
    person sets it, and no key. One for a management key gives the key's rights to whoever has a fitting token: it is set by the person
    whose key it is, who must be able to give these rights and needs a fresh proof, and it counts until somebody else adopts the key.
    """

    unit_of_work: UnitOfWorkFactory
    lookup: TrustedIssuerStore
    signatures: AssertionSignatures
    system: System
    own_issuer: str

    async def list(self, member: Member) -> Sequence[TrustedIssuer]:
        """Oldest first. Those of management keys only for whoever sees these keys."""
        rules = await self.lookup.list(member.organization)
        return [rule for rule in rules if rule.key is None or member.may(Capability.INTEGRATIONS_MANAGE)]

    async def get(self, member: Member, rule: TrustedIssuerId) -> TrustedIssuer:
        """Raises `NotFound`."""
        known = found(await self.lookup.find(member.organization, rule), _NONE)
        if known.key is not None and not member.may(Capability.INTEGRATIONS_MANAGE):
            raise NotFound(_NONE)
        return known

    async def create(
        self,
        member: Member,
        settings: TrustedIssuerSettings,
        actor: Actor,
        *,
        service: str | None,
        key: ManagementKeyId | None,
        proved: bool = False,
    ) -> TrustedIssuer:
        """For the service of this slug, or the management key: one of the two. Raises `BadRequest`, `NotFound` when there is no such
        service or key, `Conflict` when the organization has a rule of this name, `Forbidden`, and `FreshProofNeeded`.
        """
        if (service is None) == (key is None):
            raise BadRequest("service_slug: name either a service, or a management key as management_key_id", words="one_of_two")
        rule = made(self.system.ids.new(), member.organization, settings, own_issuer=self.own_issuer, now=self.system.clock.now())
        await self._look(rule)
        async with self.unit_of_work() as uow:
            rule = await self._held(uow, member, replace(rule, service_slug=service, key=key), proved=proved)
            if service is not None:
                rule = replace(rule, service=await _service(uow, member, service))
            require_room(await uow.trusted_issuers.existing(member.organization, rule.service, rule.key))
            if not await uow.trusted_issuers.add(rule):
                raise Conflict(_TAKEN, words="name_taken")
            await uow.record(trusted_issuer_created(rule, actor))
            await uow.commit()
        return rule

    async def change(
        self, member: Member, rule: TrustedIssuerId, change: TrustedIssuerChange, actor: Actor, *, proved: bool = False
    ) -> TrustedIssuer:
        """Tokens with a management key's rights that were given by the rule end with the change. Raises `NotFound`, `BadRequest`,
        `Conflict`, `Forbidden`, and `FreshProofNeeded`.
        """
        if not change.said:
            raise BadRequest("Send at least one field", words="nothing_to_change")
        known = await self.get(member, rule)
        after = changed(known, change, own_issuer=self.own_issuer, now=self.system.clock.now())
        if after.jwks_uri != known.jwks_uri:
            await self._look(after)
        async with self.unit_of_work() as uow:
            before = await self._held(uow, member, found(await uow.trusted_issuers.find(member.organization, rule), _NONE), proved=proved)
            after = changed(before, change, own_issuer=self.own_issuer, now=self.system.clock.now())
            if after is before:
                return before
            if not await uow.trusted_issuers.save(after):
                raise Conflict(_TAKEN, words="name_taken")
            await uow.record(trusted_issuer_updated(before, after, actor))
            await uow.commit()
        return after

    async def delete(self, member: Member, rule: TrustedIssuerId, actor: Actor) -> None:
        """No more tokens are given, and those with a management key's rights end. Raises `NotFound`, `Forbidden`."""
        async with self.unit_of_work() as uow:
            acting, _ = await hold_members(uow, member)
            removed = found(await uow.trusted_issuers.find(member.organization, rule), _NONE)
            require_capability(acting, Capability.SERVICES_MANAGE if removed.key is None else Capability.INTEGRATIONS_MANAGE)
            await uow.trusted_issuers.remove(rule)
            await uow.record(trusted_issuer_deleted(removed, actor))
            await uow.commit()

    async def _look(self, rule: TrustedIssuer) -> None:
        """Fetches the keys once, so that a mistyped address is refused at once. Raises `BadRequest`."""
        if rule.jwks_uri is None:
            return
        try:
            await self.signatures.look(rule.jwks_uri)
        except AssertionRefused as refused:
            raise BadRequest(f"jwks_uri: no keys could be read there: {refused}", words="keys_not_published") from None

    async def _held(self, uow: UnitOfWork, member: Member, rule: TrustedIssuer, *, proved: bool) -> TrustedIssuer:
        acting, _ = await hold_members(uow, member)
        if rule.key is None:
            require_capability(acting, Capability.SERVICES_MANAGE)
            return rule
        require_capability(acting, Capability.INTEGRATIONS_MANAGE)
        key = found(await uow.management_keys.find(member.organization, rule.key), "There is no such management key")
        if member.user != (key.adopted_by or key.created_by):
            raise Forbidden(_NOT_YOURS, words="not_your_key")
        await require_may_grant(uow, acting, named_capabilities(key.capabilities), self.system.clock.now())
        if not proved:
            raise FreshProofNeeded
        return rule


_NONE: Final = "There is no such trusted issuer"
_TAKEN: Final = "name: the organization has a trusted issuer of this name"


def require_room(existing: ExistingTrustedIssuers) -> None:
    for count, most, whose in (
        (existing.of_one, MOST_OF_ONE, "A service or a key"),
        (existing.count, MOST_TRUSTED_ISSUERS, "An organization"),
    ):
        if count >= most:
            raise BadRequest(f"{whose} has at most {most} trusted issuers: delete one first", words="limit_reached", values={"most": most})


async def _service(uow: UnitOfWork, member: Member, slug: str) -> ServiceId:
    known = found(await uow.trusted_issuers.service(member.organization, slug), "There is no such service")
    if not known.is_confidential:
        raise BadRequest("service_slug: a service on people's devices has no token of its own", words="service_has_no_token")
    return known.id

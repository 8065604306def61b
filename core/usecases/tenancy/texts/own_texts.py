"""Members with permission put texts of their own in place of ours; platform owners do so for the installation."""

from collections.abc import Collection

from core.domain.identifiers import OrganizationId, OwnTextId
from core.domain.languages import DEFAULT, Language
from core.domain.record.events import Actor
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.texts.own_texts import (
    KeptText,
    TextListing,
    TextsChange,
    WholeTexts,
    digest_of,
    languages_of,
    listed_texts,
    require_version,
    revision,
    texts_updated,
    version_of,
)
from core.domain.texts.places import TextPlace
from core.domain.texts.rules import OwnText, TextRules
from core.frozen import Frozen
from core.usecases.tenancy.rights import hold_rights
from ports.system import System
from ports.tenancy.texts.own_texts import OwnTextStore
from ports.texts import ShippedWords
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class OwnTextChanges(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: OwnTextStore
    shipped: ShippedWords
    system: System
    hosts: Collection[str]
    """The domains to which texts may link without a proof, as the operator says."""

    async def list(self, organization: OrganizationId | None, language: Language, place: TextPlace | None = None) -> TextListing:
        """The texts of a place, or of all, that may be own ones. None: the installation's."""
        kept = await self.lookup.list(organization)
        spoken = {known for one in kept if (known := Language.of(one.language)) is not None}
        return listed_texts(kept, self._rules(organization, {language, *spoken}), language, place)

    async def change(self, member: Member, change: TextsChange | WholeTexts, actor: Actor) -> str | None:
        """Returns the version that the texts have now. Raises `TextsRefused` with all that is wrong, `Conflict` when somebody has changed
        the texts meanwhile, and `Forbidden`.
        """
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.SETTINGS_MANAGE)
            proved = await uow.own_texts.hosts(member.organization)
            return await self._change(uow, member.organization, change, proved, actor)

    async def change_for_installation(self, change: TextsChange | WholeTexts, actor: Actor) -> str | None:
        """As `change`. An organization's own texts stand over those of the installation. The caller has checked that the request comes from
        a platform owner or the operator.
        """
        async with self.unit_of_work() as uow:
            # One of two changes comes after the other, and makes the digest of both.
            await uow.platform_owners.hold()
            return await self._change(uow, None, change, (), actor)

    async def compare_with_ours(self, limit: int) -> int:
        """Marks own texts beneath which a release has changed ours, so that whoever looks after them is told. Returns how many it has
        compared: most of the time none.
        """
        compared = 0
        for language in sorted(await self.lookup.languages()):
            known = Language.of(language)
            ours = {} if known is None else self.shipped.written(known)
            version = version_of(ours)
            async with self.unit_of_work() as uow:
                kept = await uow.own_texts.claim_uncompared(language, version, limit - compared)
                if kept:
                    outdated = [one.id for one in kept if one.is_outdated(ours)]
                    await uow.own_texts.mark_compared([one.id for one in kept], outdated, version)
                    await uow.commit()
            compared += len(kept)
        return compared

    async def _change(
        self, uow: UnitOfWork, organization: OrganizationId | None, change: TextsChange | WholeTexts, proved: Collection[str], actor: Actor
    ) -> str | None:
        kept = await uow.own_texts.list(organization)
        digest = digest_of(kept)
        require_version(change.version, digest)
        changes = change.changes(kept)
        rules = self._rules(organization, languages_of(changes), proved)
        revised = revision(changes, kept, rules)
        if revised.changes_nothing:
            return digest
        put = [self._kept(organization, one, rules) for one in revised.put]
        await uow.own_texts.put(put)
        await uow.own_texts.remove([one.id for one in revised.removed])
        gone = {one.place for one in (*revised.removed, *put)}
        digest = digest_of([*(one for one in kept if one.place not in gone), *put])
        await uow.own_texts.save_digest(organization, digest)
        await uow.record(texts_updated(organization, revised, kept, actor))
        await uow.commit()
        return digest

    def _kept(self, organization: OrganizationId | None, one: OwnText, rules: TextRules) -> KeptText:
        return KeptText(
            id=OwnTextId(self.system.ids.new()),
            organization=organization,
            key=one.key,
            language=one.language.value,
            text=one.text,
            based_on=rules.ours_of(one.key, one.language),
            updated_at=self.system.clock.now(),
        )

    def _rules(self, organization: OrganizationId | None, languages: Collection[Language], proved: Collection[str] = ()) -> TextRules:
        ours = {language: self.shipped.written(language) for language in languages}
        return TextRules(ours, self.shipped.written(DEFAULT), {*self.hosts, *proved}, of_organization=organization is not None)

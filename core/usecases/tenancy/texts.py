"""Custom texts, notices, languages and mail previews of an organization."""

from collections.abc import Collection, Sequence
from datetime import datetime

from core.domain.branding import NO_LINKS, POSTERN, Branding
from core.domain.errors import BadRequest, found
from core.domain.identifiers import OrganizationId, OwnTextId, UserId
from core.domain.identity.account_mails import Links
from core.domain.identity.callers import Caller
from core.domain.languages import DEFAULT, Language
from core.domain.mail import Mail
from core.domain.record.events import Actor
from core.domain.tenancy.mail_servers import OrganizationMail
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from core.domain.tenancy.texts import (
    KeptText,
    NoticeTimes,
    SpokenLanguages,
    TextListing,
    TextsChange,
    WholeTexts,
    digest_of,
    following,
    languages_of,
    languages_updated,
    listed_texts,
    notice_updated,
    require_mail,
    require_version,
    revision,
    spoken_languages,
    texts_updated,
    values_of,
    version_of,
)
from core.domain.texts.own_texts import TextPlace
from core.domain.texts.rules import OwnText, TextRules
from core.frozen import Frozen, replace
from core.usecases.tenancy.rights import hold_rights
from ports.mail import MailTemplates
from ports.system import Clock, System
from ports.tenancy.organizations import NoticeStore, OwnTextStore, SpokenLanguageStore
from ports.texts import Brandings, ShippedWords
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class MailPreviews(Frozen):
    unit_of_work: UnitOfWorkFactory
    brandings: Brandings
    templates: MailTemplates
    links: Links
    clock: Clock

    async def branding(self, member: Member) -> Branding:
        """What pages and mails of the organization wear. Of one that is not active they wear ours. They can be looked at in every language,
        also before the organization speaks it.
        """
        return replace(await self.brandings.find(member.organization_slug) or POSTERN, languages=())

    def show(self, reader: Caller, name: str, language: Language, branding: Branding) -> Mail:
        """The mail to the reader, with own texts whether anybody has said yes to them or not. Raises `NotFound`."""
        to = reader.email.address
        values = values_of(require_mail(name), to, self.links.frontend_url, self.clock.now())
        return self.templates.mail(name, to, account=None, language=language, branding=branding, carries_own_texts=True, **values)

    async def send(self, member: Member, name: str, language: Language) -> str:
        """Sends the mail to the caller, as the organization's mails are sent, and to nobody else. Returns the address. Raises `NotFound`,
        and `BadRequest` when nobody has verified the address.
        """
        require_mail(name)
        if not member.caller.email_is_verified:
            raise BadRequest("Verify your e-mail address first", words="own_address_unverified")
        mail = self.show(member.caller, name, language, await self.branding(member))
        async with self.unit_of_work() as uow:
            await uow.jobs.add(OrganizationMail(mail, member.organization).as_job())
            await uow.commit()
        return mail.to


_UNKNOWN = "There is no such organization"


class Notices(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: NoticeStore

    async def get(self, member: Member) -> NoticeTimes:
        """Raises `NotFound` when the organization has been deleted since the request came in."""
        return found(await self.lookup.find(member.organization), _UNKNOWN)

    async def set(self, member: Member, times: NoticeTimes, actor: Actor) -> NoticeTimes:
        """Raises `BadRequest`, and `Forbidden` when the caller may no longer change the settings."""
        after = times.checked()
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.SETTINGS_MANAGE)
            before = found(await uow.notices.find(member.organization), _UNKNOWN)
            if before != after:
                await uow.notices.save(member.organization, after)
                await uow.record(notice_updated(member.organization, before, after, actor))
                await uow.commit()
        return after


def organization_mail(
    templates: MailTemplates,
    organization: OrganizationId,
    template: str,
    to: str,
    *,
    account: UserId | None,
    language: Language | None,
    branding: Branding,
    is_own: bool = False,
    **values: str | bool | datetime | tuple[str, ...] | None,
) -> OrganizationMail:
    """`is_own`: the mail goes to somebody with an own tie to the organization. For anybody else, the installation's server writes in our
    words and without links of the organization's choice, and the organization's own server in those of the organization.
    """

    def written(*, carries_own_texts: bool) -> Mail:
        return templates.mail(
            template, to, account=account, language=language, branding=branding, carries_own_texts=carries_own_texts, **values
        )

    mail = written(carries_own_texts=is_own)
    has_own = branding.texts.digest or branding.links != NO_LINKS
    own = written(carries_own_texts=True) if has_own and not is_own else mail
    return OrganizationMail(mail, organization, None if own == mail else own)


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
            rules = self._rules(None, () if known is None else (known,))
            version = version_of({} if known is None else rules.ours[known])
            async with self.unit_of_work() as uow:
                kept = await uow.own_texts.claim_uncompared(language, version, limit - compared)
                if kept:
                    outdated = [one.id for one in kept if one.is_outdated(rules)]
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
        former = {language: self.shipped.former(language) for language in (*languages, DEFAULT)}
        english = self.shipped.written(DEFAULT)
        return TextRules(ours, english, {*self.hosts, *proved}, of_organization=organization is not None, former=former)


async def follow_proof(uow: UnitOfWork, organization: OrganizationId, domain: str, listed: Collection[str]) -> None:
    """Links in texts follow the verification of their domains.

    After the proof of the domain has come or gone, in the unit of work of that, which holds the organization. A text stays as somebody
    wrote it: without the proof, pages and mails show its links as words. Links to the domains that the operator has `listed` need none.
    """
    kept = await uow.own_texts.list(organization)
    changed = following(kept, domain, {*listed, *await uow.own_texts.hosts(organization)}) if kept else []
    if changed:
        now = {one.place: one for one in changed}
        await uow.own_texts.put(changed)
        await uow.own_texts.save_digest(organization, digest_of(now.get(one.place, one) for one in kept))


class OrganizationLanguages(Frozen):
    unit_of_work: UnitOfWorkFactory
    lookup: SpokenLanguageStore

    async def get(self, member: Member) -> SpokenLanguages:
        """Raises `NotFound` when the organization has been deleted since the request came in."""
        return _found(await self.lookup.find(member.organization))

    async def change(self, member: Member, codes: Sequence[str], actor: Actor) -> SpokenLanguages:
        """Raises `BadRequest`, and `Forbidden` when the caller may no longer change the settings."""
        after = spoken_languages(codes)
        async with self.unit_of_work() as uow:
            await hold_rights(uow, member, Capability.SETTINGS_MANAGE)
            before = _found(await uow.spoken_languages.find(member.organization))
            if after == before:
                return before
            await uow.spoken_languages.save(member.organization, after)
            await uow.record(languages_updated(member.organization, before, after, actor))
            await uow.commit()
        return after


def _found(spoken: SpokenLanguages | None) -> SpokenLanguages:
    return found(spoken, "There is no such organization", words="organization_unknown")

"""Tells of sessions that a later sign-in has ended: the applications, the log, and the person."""

from core.domain.identity.session_limits.displaced import DISPLACED_MAILS, DisplacedPerson, Displacement, sessions_displaced
from core.domain.mail import Mail
from core.frozen import Frozen
from ports.mail_templates import MailTemplates
from ports.rate_limits import SharedBuckets
from ports.unit_of_work import UnitOfWorkFactory


class DisplacedSessions(Frozen):
    unit_of_work: UnitOfWorkFactory
    templates: MailTemplates
    buckets: SharedBuckets

    async def tell(self, displacement: Displacement) -> bool:
        """Returns whether there is anybody to tell. A second call tells the person again, and the applications once."""
        async with self.unit_of_work() as uow:
            person = await uow.sessions.find_displaced(displacement)
        if person is None:
            return False
        mail = await self._mail(person)
        async with self.unit_of_work() as uow:
            await uow.sessions.notice_displaced(displacement)
            if mail is not None:
                await uow.jobs.add(mail.as_job())
            await uow.record(sessions_displaced(person, displacement))
            await uow.commit()
        return True

    async def _mail(self, person: DisplacedPerson) -> Mail | None:
        if not person.is_active or await self.buckets.take(DISPLACED_MAILS, str(person.user)) > 0:
            return None
        location = person.location
        return self.templates.mail(
            "session_displaced",
            person.email.address,
            account=person.user,
            language=person.language,
            place=person.place,
            when=person.last_seen_at,
            device=person.device_name,
            location=None if location is None else ", ".join(filter(None, (location.city, location.country))),
        )

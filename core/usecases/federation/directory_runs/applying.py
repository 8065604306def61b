"""What a run of a directory writes about people: a few hundred in one unit of work, which goes on with the run or writes nothing."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from core.domain.email import Email
from core.domain.federation.directory_runs.people import (
    PersonDecision,
    PersonFate,
    PersonInDirectory,
    RunDirectory,
    WhyLeftOut,
    asked_about,
    decided_together,
    names_changed,
)
from core.domain.federation.directory_runs.runs import LEASE, DirectoryRun, DirectoryStep, RunPerson
from core.domain.federation.scim.users import (
    HeldUser,
    ProvisionedFate,
    ReasonForLeaving,
    email_changed,
    user_joined,
    user_signed_up,
)
from core.domain.identifiers import MembershipId, UserId
from core.domain.identity.accounts import unverified_account
from core.domain.identity.upstream.vouching import Voucher
from core.domain.record.events import SYSTEM, Event
from core.domain.tenancy.profile_fields import FieldWriter, suitable_values
from core.domain.tenancy.roles import BuiltInRole
from core.frozen import Frozen
from core.usecases.federation.scim.enrolment import Enrolment, fate_of_joining
from core.usecases.identity.account_access import leave_to_another
from core.usecases.identity.accounts import Accounts
from core.usecases.tenancy.profile_values import ProfileValues
from ports.federation.scim.users import AddressChange
from ports.mail_templates import MailTemplates
from ports.system import System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class TakenOver(Exception):
    """Another process has taken the run over, or the connection does not keep in step any more: nothing may be written."""


async def hold_step(uow: UnitOfWork, step: DirectoryStep, system: System) -> None:
    """Raises `TakenOver`."""
    if not await uow.directory_runs.hold_step(step, system.clock.now() + LEASE):
        raise TakenOver


class RunChanges(Frozen):
    unit_of_work: UnitOfWorkFactory
    accounts: Accounts
    values: ProfileValues
    templates: MailTemplates
    system: System

    async def go_on(self, step: DirectoryStep) -> None:
        """The run is still under way. Raises `TakenOver`."""
        async with self.unit_of_work() as uow:
            await hold_step(uow, step, self.system)
            await uow.commit()

    async def name(self, step: DirectoryStep, run: DirectoryRun, people: Sequence[RunPerson], after: int) -> None:
        """Keeps whom a plan lets in, page by page: a run holds nobody whom it has read. Raises `TakenOver`."""
        async with self.unit_of_work() as uow:
            await hold_step(uow, step, self.system)
            await uow.directory_runs.name(run, people, after)
            await uow.commit()

    async def carry_out(
        self, step: DirectoryStep, directory: RunDirectory, people: Sequence[PersonInDirectory]
    ) -> Sequence[PersonDecision]:
        """Decides about these people while their accounts are held, and does what is decided, except for ends. Raises `TakenOver`."""
        now = self.system.clock.now()
        async with self.unit_of_work() as uow:
            await hold_step(uow, step, self.system)
            # A domain may have been lost since the run began.
            domains = await uow.directory_people.proved_domains(step.organization)
            asked = [asked_about(one, domains) for one in people]
            await uow.directory_people.hold_people(step.connection, asked)
            met = await uow.directory_people.met(step.organization, step.connection, asked)
            capacity = await uow.directory_people.room(step.organization)
            assert capacity is not None  # noqa: S101 - the organization is held
            room = capacity.limit.max_users - capacity.members
            said = await uow.directory_people.known(step.connection, [one.external_id for one in people])
            decisions = decided_together(people, met, domains, room)
            decisions, joined, events = await self._joined(uow, step, directory, decisions, now)
            changed = {one.met.user: one.person for one in decisions if one.fate is PersonFate.CHANGES and one.met is not None}
            await uow.directory_people.save_people(step.organization, step.connection, {**joined, **changed}, now)
            for one in decisions:
                if one.moves and one.met is not None:
                    events += await self._move(uow, directory, one, now)
            # Who differs in the address alone, which stays, is looked at in each run: that is no news.
            events += [
                names_changed(user, directory, SYSTEM) for user, one in changed.items() if said[one.external_id].digest != one.digest
            ]
            await uow.record_all(events)
            for user, person in {**joined, **changed}.items():
                await self._write_fields(uow, step, user, person)
            await uow.commit()
        return decisions

    async def end(self, step: DirectoryStep, directory: RunDirectory, external_ids: Sequence[bytes]) -> Sequence[str]:
        """Ends these people in the organization. Returns those who stay because they may do more than a member. Raises `TakenOver`."""
        now = self.system.clock.now()
        async with self.unit_of_work() as uow:
            await hold_step(uow, step, self.system)
            found = await uow.directory_people.named(step.connection, external_ids)
            named = {one.user: one.email for one in found.values()}
            held = [one for _, one in await uow.provisioned_users.hold_all(step.organization, list(named))]
            stay = [one for one in held if not _is_ordinary(one)]
            leaving = [one for one in held if _is_ordinary(one)]
            events = await Enrolment(uow, self.system.ids, directory, SYSTEM, now).leave(leaving, ReasonForLeaving.DEACTIVATED)
            ended = set(named) - {one.user.id for one in stay}
            await uow.directory_people.end_people(step.connection, ended, now)
            await uow.record_all(events)
            await uow.commit()
        return [named[one.user.id] for one in stay]

    async def _joined(
        self, uow: UnitOfWork, step: DirectoryStep, directory: RunDirectory, decisions: Sequence[PersonDecision], now: datetime
    ) -> tuple[Sequence[PersonDecision], Mapping[UserId, PersonInDirectory], list[Event]]:
        """The decisions with those that a registration at this moment has overtaken, whom the run lets in, and the events of that."""
        voucher = Voucher(step.organization, step.connection)
        fresh = {UserId(self.system.ids.new()): one for one in decisions if one.fate is PersonFate.COMES and one.met is None}
        accounts = [unverified_account(user, Email(one.person.email), now, None, voucher) for user, one in fresh.items()]
        made = await uow.directory_people.add_accounts(step.organization, accounts) if accounts else ()
        lost = {one.person.external_id for user, one in fresh.items() if user not in made}
        decisions = [_overtaken(one) if one.person.external_id in lost else one for one in decisions]
        events, joined = list[Event](), dict[UserId, PersonInDirectory]()
        for user in made:
            joined[user] = fresh[user].person
            events += [user_signed_up(user, directory, SYSTEM), user_joined(user, ProvisionedFate.CREATED, directory, SYSTEM)]
        for one in decisions:
            if one.met is None or one.fate not in {PersonFate.COMES, PersonFate.RETURNS}:
                continue
            account = one.met.account
            if account.nobody_knows_address and account.deactivated_at is None:
                await self.accounts.disown_unverified(uow, account.id, SYSTEM)
            joined[account.id] = one.person
            fate = fate_of_joining(account, step.organization)
            if not one.met.is_member:
                events.append(user_joined(account.id, fate, directory, SYSTEM))
        if joined:
            members = {user: MembershipId(self.system.ids.new()) for user in joined}
            await uow.directory_people.enter(step.organization, members, now)
        return decisions, joined, events

    async def _move(self, uow: UnitOfWork, directory: RunDirectory, decision: PersonDecision, now: datetime) -> Sequence[Event]:
        """Moves an account of the directory's own to the address that the directory states now, as SCIM does. Nothing of the holder of the
        former address stays.
        """
        met, email = decision.met, Email(decision.person.email)
        assert met is not None  # noqa: S101 - whoever moves has an account
        if await uow.provisioned_users.change_address(directory.organization, met.user, email, now) is not AddressChange.DONE:
            return ()
        await leave_to_another(uow, met.user, SYSTEM, directory.organization)
        old = met.account.email.address
        language = met.account.language or SYSTEM.language
        mail = self.templates.mail(
            "email_changed_old", old, account=met.user, language=language, new_email=email.address, done=True, when=now, address=None
        )
        await uow.jobs.add(mail.as_job())
        return [email_changed(met.user, directory, SYSTEM)]

    async def _write_fields(self, uow: UnitOfWork, step: DirectoryStep, user: UserId, person: PersonInDirectory) -> None:
        """Writes what fits. A wrong value, or one without room, never stops a run."""
        if not person.fields:
            return
        held = await uow.profile_values.hold(user, step.organization)
        assert held is not None  # noqa: S101 - the account is held
        suitable, _ = suitable_values(held.kept, person.fields, FieldWriter.DIRECTORY)
        if suitable:
            await self.values.written(uow, held, suitable, FieldWriter.DIRECTORY, SYSTEM)


def _is_ordinary(held: HeldUser) -> bool:
    return held.capabilities <= BuiltInRole.MEMBER.capabilities


def _overtaken(decision: PersonDecision) -> PersonDecision:
    return PersonDecision(person=decision.person, fate=PersonFate.STAYS, left_out=WhyLeftOut.ADDRESS_OF_ANOTHER)

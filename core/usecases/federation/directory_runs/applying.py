"""Writes the results of a directory sync: users and teams."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Final

import structlog

from core.domain.errors import BadRequest
from core.domain.federation.directory_runs.people import (
    PersonDecision,
    PersonFate,
    PersonInDirectory,
    RunDirectory,
    WhyLeftOut,
    asked_about,
    decided_together,
    external_id,
    names_changed,
)
from core.domain.federation.directory_runs.runs import LEASE, DirectoryRun, DirectoryStep, RunPerson, RunTally, must_stop
from core.domain.federation.scim.groups import MOST_MEMBERS, ScimGrouping
from core.domain.federation.scim.users import (
    HeldUser,
    ProvisionedFate,
    ReasonForLeaving,
    email_changed,
    user_joined,
    user_signed_up,
)
from core.domain.identifiers import MembershipId, TeamId, UserId
from core.domain.identity.accounts import unverified_account
from core.domain.identity.upstream.claims import Voucher
from core.domain.identity.upstream.ldap.answers import LdapSite
from core.domain.identity.upstream.ldap.surveys import LdapGroup
from core.domain.mail import Email
from core.domain.record.events import SYSTEM, Event
from core.domain.tenancy.profile_fields import FieldWriter, suitable_values
from core.domain.tenancy.roles import BuiltInRole
from core.domain.tenancy.teams import (
    LONGEST_NAME,
    member_added,
    member_removed_from_team,
    team_created,
    team_deleted,
    team_updated,
)
from core.frozen import Frozen, replace
from core.usecases.federation.scim.enrolment import Enrolment, fate_of_joining
from core.usecases.identity.account_endings import leave_to_another
from core.usecases.identity.accounts import Accounts
from core.usecases.tenancy.profile_fields import ProfileValues
from core.usecases.tenancy.teams import add_directory_team, require_room
from ports.federation.directory_runs import DirectoryPeopleStore, ListedGroup
from ports.federation.scim import AddressChange, DirectoryTeamStore
from ports.identity.upstream import LdapReading
from ports.mail import MailTemplates
from ports.system import System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory


class TakenOver(Exception):
    """Another process has taken the run over, or the connection does not keep in step any more: nothing may be written."""


async def hold_step(uow: UnitOfWork, step: DirectoryStep, system: System) -> None:
    """Raises `TakenOver`."""
    if not await uow.directory_runs.hold_step(step, system.clock.now() + LEASE):
        raise TakenOver


class RunChanges(Frozen):
    """Writes what a sync run changes about users: a few hundred in one unit of work, which advances the run or writes nothing."""

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


log = structlog.get_logger()

_NAMELESS: Final = "group"


class RunTeams(Frozen):
    """Syncs the groups of an LDAP directory to teams, by the same rules as SCIM groups: an owner has enabled it, and the directory grants
    no roles.
    """

    unit_of_work: UnitOfWorkFactory
    people: DirectoryPeopleStore
    directory_teams: DirectoryTeamStore
    reading: LdapReading
    system: System

    async def fill(self, step: DirectoryStep, site: LdapSite, tally: RunTally, *, everything: bool) -> None:
        """Counts the teams that have changed. `everything`: people have come, so groups that are as before are compared, too. Raises
        `LdapFailed` and `TakenOver`.
        """
        if (await self.directory_teams.settings(step.organization)).groups is not ScimGrouping.TEAMS:
            return
        groups = await self.reading.groups(site)
        known = {one.external_id: one for one in await self.people.groups(step.connection)}
        if not groups:
            # A directory that names no group any more has lost its rights, and not its groups.
            if known:
                log.warning("directory_without_groups", connection=str(step.connection), teams=len(known))
            return
        listed, has_room = len(known), True
        for group in groups:
            before, digest = known.pop(group.identity, None), _digest(group)
            if before is None and not has_room:
                # A directory has thousands of groups, and each would ask in a transaction of its own, in each run.
                continue
            if everything or before is None or before.digest != digest:
                is_changed = await self._one(step, site, group, before, digest)
                has_room = has_room and is_changed is not None
                tally.teams += is_changed or False
        # Teams hold roles, and whoever loses a role by a fault of the directory does not get it back with the group.
        stays = must_stop(len(known), 0, listed)
        for gone in known.values():
            if stays:
                tally.leave_out(gone.team.name, WhyLeftOut.GROUP_STAYS)
            else:
                tally.teams += await self._delete(step, gone)

    async def _one(self, step: DirectoryStep, site: LdapSite, group: LdapGroup, before: ListedGroup | None, digest: bytes) -> bool | None:
        """Whether the team has changed. None when there is no room for another team."""
        now = self.system.clock.now()
        members = {external_id(one, site.settings) for one in group.members}
        async with self.unit_of_work() as uow:
            await hold_step(uow, step, self.system)
            team = None if before is None else await uow.directory_people.team(step.connection, group.identity)
            events = list[Event]()
            if team is None:
                try:
                    require_room(*await uow.teams.count(step.organization))
                except BadRequest:
                    log.warning("directory_group_without_room", connection=str(step.connection))
                    return None
                team = await add_directory_team(uow, TeamId(self.system.ids.new()), step.organization, _name(group), now)
                events.append(team_created(team, SYSTEM))
            elif team.name != _name(group):
                renamed = replace(team, name=_name(group), updated_at=now)
                await uow.teams.save(renamed)
                events.append(team_updated(team, renamed, SYSTEM))
            users: list[UserId] = list(await uow.directory_people.users_of(step.connection, members))
            if not group.is_cut:
                while leaving := await uow.directory_teams.others(team, users, MOST_MEMBERS):
                    gone = await uow.teams.remove_members(team, leaving, now)
                    events += [member_removed_from_team(team, user, SYSTEM) for user in gone]
            events += [member_added(team, user, SYSTEM) for user in await uow.teams.add_members(team, users, now)]
            await uow.directory_people.save_group(step.connection, group.identity, team.id, digest)
            await uow.record_all(events)
            await uow.commit()
        return len(events) > 0

    async def _delete(self, step: DirectoryStep, gone: ListedGroup) -> bool:
        async with self.unit_of_work() as uow:
            await hold_step(uow, step, self.system)
            team = await uow.directory_people.team(step.connection, gone.external_id)
            # None, if somebody has deleted it at this moment.
            await uow.teams.delete(gone.team.id)
            await uow.record_all([] if team is None else [team_deleted(team, SYSTEM)])
            await uow.commit()
        return team is not None


def _name(group: LdapGroup) -> str:
    return "".join(one for one in group.name if one.isprintable()).strip()[:LONGEST_NAME].strip() or _NAMELESS


def _digest(group: LdapGroup) -> bytes:
    digest = sha256(_name(group).encode("utf-8", "surrogatepass"))
    for one in sorted(group.members):
        digest.update(sha256(one).digest())
    return digest.digest()

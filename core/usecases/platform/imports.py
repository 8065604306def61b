"""Imports users from another system, batch by batch. Each batch is one transaction, and is idempotent."""

import hmac
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from core.domain.errors import BadRequest, OrganizationNotActive, Overloaded, found
from core.domain.identifiers import AssignmentId, IdentityId, MembershipId, PasskeyId, UserId
from core.domain.identity.account_mails import AccountMail, AskedMail
from core.domain.identity.mfa import sealing_context
from core.domain.identity.passkeys import TRANSPORTS, Obstacle, RelyingParty, passkey_name
from core.domain.identity.profiles import USED_USERNAMES, username_digest
from core.domain.mail import Email
from core.domain.platform.imports.decisions import Deciding, Decision, ImportDestination, ImportRules, KnownProvider, Marks, MetBefore
from core.domain.platform.imports.events import all_of, import_finished
from core.domain.platform.imports.records import Found, ImportedPasskey, ImportedPerson, UnreadableRecord, shown
from core.domain.platform.imports.reports import NO_PARTS, Outcome, ReportLine, Tally
from core.domain.record.events import Actor
from core.frozen import Frozen, replace
from ports.crypto import KeptSecrets, KeyRing, PasswordHasher
from ports.identity.accounts import EmailSyntax
from ports.identity.sign_in import Authenticators
from ports.jobs import Advance
from ports.platform import Candidate, ImportStore, Notebook, PeopleSource, Written
from ports.system import System
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

IMPORTED_PEOPLE: Final = "imported_people"
"""The purpose of the server's secret for digests of sources and ids."""
# Somebody takes an address or a user name of the batch at the same moment. Hardly ever, and never so many times.
_TRIES: Final = 20
_UNNAMED: Final = "Passkey"

Tell = Callable[[Sequence[ReportLine]], None]


class _Keys(Frozen):
    people: bytes
    usernames: bytes


class _Run(Frozen, kw_only=True):
    source: PeopleSource
    rules: ImportRules
    to: ImportDestination
    """As it was at the beginning."""
    keys: _Keys
    passkey_fault: str


class Imports(Frozen, kw_only=True):
    unit_of_work: UnitOfWorkFactory
    lookup: ImportStore
    server_secrets: KeptSecrets
    passwords: PasswordHasher
    authenticators: Authenticators
    keyring: KeyRing
    email_syntax: EmailSyntax
    relying_party: RelyingParty | Obstacle
    providers: Sequence[KnownProvider]
    """The shared providers that name a person alike to every client."""
    system: System

    async def run(
        self, source: PeopleSource, rules: ImportRules, actor: Actor, *, tell: Tell, advance: Advance, notebook: Notebook
    ) -> Tally:
        """Takes all people of the source. `tell` gets the lines of the report, and a plan notes in the notebook what it has met. Raises
        `NotFound` for the organization, `OrganizationNotActive`, and `BadRequest` for a role.
        """
        to = await self._destination(self.lookup, rules)
        keys, fault = await self._keys(rules), self._passkey_fault(source, rules)
        run = _Run(source=source, rules=rules, to=to, keys=keys, passkey_fault=fault)
        tally, met = Tally(), MetBefore(notebook)
        while found := await source.next():
            records = [await self._record(run, one) for one in found]
            candidates = [one for one in records if isinstance(one, Candidate)]
            if rules.is_plan:
                decisions = await self._planned(run, candidates, met)
                notebook.note(list(met.notes.items()))
                met.notes.clear()
            else:
                decisions = await self._written(run, candidates)
            tell(_counted(tally, records, decisions, rules))
            advance(len(found))
        if not rules.is_plan:
            async with self.unit_of_work() as uow:
                await uow.record(import_finished(actor, source.name, source.digest, rules, tally))
                await uow.commit()
        return tally

    async def _destination(self, store: ImportStore, rules: ImportRules) -> ImportDestination:
        to = found(await store.destination(rules.organization, self.providers), f"There is no organization {rules.organization}")
        if not to.is_active:
            raise OrganizationNotActive
        if to.organization is not None:
            for slug in (rules.role, *rules.role_map.values()):
                to.role(slug)
        return to

    async def _keys(self, rules: ImportRules) -> _Keys:
        """A plan writes nothing, not even a secret. Without one, no import has ever been, and any key will do."""
        if not rules.is_plan:
            return _Keys(await self.server_secrets.get(IMPORTED_PEOPLE), await self.server_secrets.get(USED_USERNAMES))
        people, usernames = await self.server_secrets.find(IMPORTED_PEOPLE), await self.server_secrets.find(USED_USERNAMES)
        return _Keys(people or self.system.secrets.token().digest(), usernames or self.system.secrets.token().digest())

    def _passkey_fault(self, source: PeopleSource, rules: ImportRules) -> str:
        ours = self.relying_party
        if isinstance(ours, Obstacle):
            return "this installation cannot have any, because of its base URL"
        theirs = source.relying_party or rules.relying_party
        if not theirs:
            return "their relying party is unknown: specify it with --relying-party"
        if theirs != ours.id or (rules.relying_party and rules.relying_party != theirs):
            return f"they belong to {shown(theirs, 100)}, and not to {ours.id}"
        return ""

    async def _record(self, run: _Run, found: Found) -> Candidate | ReportLine:
        """Somebody to decide about, or the line that says why not."""
        if isinstance(found, UnreadableRecord):
            return ReportLine(found.place, found.id, found.email, Outcome.LEFT_OUT, notes=(found.reason,))
        try:
            email = self._email(found)
        except BadRequest as refusal:
            return ReportLine(found.place, shown(found.id), shown(found.email), Outcome.LEFT_OUT, notes=(refusal.message,))
        person = await self._checked(found) if found.passkeys and not run.passkey_fault else found
        return Candidate(person, email, self._marks(run, found))

    def _email(self, person: ImportedPerson) -> Email:
        """Raises `BadRequest`."""
        if not person.email:
            raise BadRequest("email: is missing")
        return self.email_syntax.parse(person.email)

    def _marks(self, run: _Run, person: ImportedPerson) -> Marks:
        named = f"{run.source.name}\n{person.id}".encode("utf-8", "surrogatepass")
        name = username_digest(person.username, run.keys.usernames) if person.username.isascii() else b""
        return Marks(UserId(self.system.ids.new()), hmac.digest(run.keys.people, named, "sha256"), name)

    async def _checked(self, person: ImportedPerson) -> ImportedPerson:
        """The person with the passkeys that can be used here, each with a name."""
        faults = await self.authenticators.faults_of_keys([one.public_key for one in person.passkeys])
        good = tuple(_usable(one) for one, fault in zip(person.passkeys, faults, strict=True) if not fault)
        notes = tuple(f"passkey: {fault}" for fault in faults if fault)
        return replace(person, passkeys=good, notes=(*person.notes, *notes))

    async def _planned(self, run: _Run, candidates: Sequence[Candidate], met: MetBefore) -> Sequence[Decision]:
        to = await self._destination(self.lookup, run.rules)
        facts = await self.lookup.facts(to, candidates)
        deciding = Deciding(to=to, rules=run.rules, facts=facts, met=met, passkey_fault=run.passkey_fault)
        return [deciding.decide(one.person, one.email, one.marks) for one in candidates]

    async def _written(self, run: _Run, candidates: Sequence[Candidate]) -> Sequence[Decision]:
        """Raises `Overloaded` when others take the addresses of these people again and again."""
        for _ in range(_TRIES):
            passwords = await self._passwords(run, candidates)
            async with self.unit_of_work() as uow:
                to = await self._held(uow, run, candidates)
                facts = await uow.imports.facts(to, candidates)
                deciding = Deciding(to=to, rules=run.rules, facts=facts, met=MetBefore(), passkey_fault=run.passkey_fault)
                decisions = [deciding.decide(one.person, one.email, one.marks) for one in candidates]
                if not _all_hashed(decisions, passwords):
                    continue
                rows = [self._row(one, candidate, passwords) for one, candidate in zip(decisions, candidates, strict=True) if _is_kept(one)]
                if not await uow.imports.write(to, rows, self.system.clock.now()):
                    continue
                await uow.record_all(all_of(decisions, run.source.name, run.source.digest, to, run.rules))
                if run.rules.tells:
                    await self._mail(uow, rows, run.rules)
                await uow.commit()
            return decisions
        raise Overloaded("Another import uses the same email addresses at this time: run the import again", retry_after=1)

    async def _held(self, uow: UnitOfWork, run: _Run, candidates: Sequence[Candidate]) -> ImportDestination:
        """What is held cannot change until the commit, so it is read only then."""
        await uow.imports.hold(run.to, candidates)
        return await self._destination(uow.imports, run.rules)

    async def _passwords(self, run: _Run, candidates: Sequence[Candidate]) -> Mapping[UserId, str]:
        """The texts under which the hashes of new accounts are kept. Fast ones are wrapped first, which is slow, so nothing is wrapped for
        people who get no account.
        """
        coming = candidates
        if any(one.person.password is not None and one.person.password.is_fast for one in candidates):
            planned = await self._planned(run, candidates, MetBefore())
            coming = [one for one, decision in zip(candidates, planned, strict=True) if decision.account is not None]
        hashed = [(one.marks.user, one.person.password) for one in coming if one.person.password is not None]
        texts = await self.passwords.stored([password for _, password in hashed])
        return {user: text for (user, _), text in zip(hashed, texts, strict=True)}

    def _row(self, decision: Decision, candidate: Candidate, passwords: Mapping[UserId, str]) -> Written:
        account, listing, user = decision.account, decision.listing, candidate.marks.user
        secret = None if account is None else candidate.person.totp
        return Written(
            decision=decision,
            email=candidate.email,
            marks=candidate.marks,
            password=None if account is None else passwords.get(user),
            sealed_totp=None if secret is None else self.keyring.seal(secret.reveal().encode(), sealing_context(user)),
            passkeys=() if account is None else tuple(PasskeyId(self.system.ids.new()) for _ in account.passkeys),
            identities=() if account is None else tuple(IdentityId(self.system.ids.new()) for _ in account.identities),
            membership=MembershipId(self.system.ids.new()) if listing is not None and listing.is_new else None,
            assignments=() if listing is None else tuple(AssignmentId(self.system.ids.new()) for _ in listing.service_roles),
        )

    async def _mail(self, uow: UnitOfWork, rows: Sequence[Written], rules: ImportRules) -> None:
        """New accounts get the link that they need before they can sign in."""
        for one in rows:
            account = one.decision.account
            if account is None or account.is_disabled or (account.is_verified and one.password is not None):
                continue
            kind = AccountMail.SET_PASSWORD if one.password is None else AccountMail.VERIFICATION
            mail = AskedMail(kind, one.email, rules.organization, account.profile.language, can_wait=True, account=one.marks.user)
            await uow.jobs.add(mail.as_job())


def _counted(
    tally: Tally, records: Sequence[Candidate | ReportLine], decisions: Sequence[Decision], rules: ImportRules
) -> Sequence[ReportLine]:
    """A line for each record in turn, added to the sums."""
    lines: list[ReportLine] = []
    decided = iter(decisions)
    for record in records:
        if isinstance(record, ReportLine):
            line, parts = record, NO_PARTS
        else:
            decision = next(decided)
            line, parts = decision.line(is_plan=rules.is_plan), decision.parts
        tally.add(line, parts)
        lines.append(line)
    return lines


def _usable(passkey: ImportedPasskey) -> ImportedPasskey:
    """The passkey as a registration here would keep it."""
    try:
        name = passkey_name(passkey.name)
    except BadRequest:
        name = _UNNAMED
    return replace(passkey, name=name, transports=tuple(one for one in passkey.transports if one in TRANSPORTS))


def _is_kept(decision: Decision) -> bool:
    """Whether rows follow from the decision."""
    return decision.outcome in {Outcome.TAKEN, Outcome.MERGED}


def _all_hashed(decisions: Sequence[Decision], passwords: Mapping[UserId, str]) -> bool:
    return all(one.user in passwords for one in decisions if one.account is not None and one.person.password is not None)

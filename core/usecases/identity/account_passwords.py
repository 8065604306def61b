"""Sets, changes and resets passwords of accounts, and counts the password hashes that other systems left."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial

from core.domain.errors import BadRequest, NotFound, RateLimited, Unauthorized, found
from core.domain.identifiers import SessionId, UserId, UserKeyId
from core.domain.identity.account_locks import FactorWouldEnd, account_unlocked, lost_on_the_way, recent_from
from core.domain.identity.account_mails import CHOOSES_PASSWORD, MailedToken, refusal_of
from core.domain.identity.accounts import PASSWORD_GUESSES, Account, AccountPassword, PasswordChosen, opened_by_proof
from core.domain.identity.passwords import STRANGER, PasswordStanding, require_acceptable
from core.domain.identity.realms import ProviderRequired
from core.domain.identity.sign_in import Priority
from core.domain.identity.upstream.claims import AddedWay
from core.domain.mail import Email
from core.domain.record.events import Actor, Event, Target
from core.domain.secrets import Password, Token
from core.domain.services.user_keys import HeldUserKey, PlacedUserKey, named_keys
from core.frozen import Frozen, replace
from core.usecases.identity.account_endings import end_access, end_added_way, end_second_factor, end_user_keys, hand_over, require_living
from core.usecases.identity.realms import HomeRealms
from ports.crypto import BreachedPasswords, CommonPasswords, PasswordHasher
from ports.identity.accounts import ForeignHashStore, PasswordCounts, PasswordStandings
from ports.mail import MailTemplates
from ports.metrics import Metrics
from ports.system import Clock, SharedBuckets
from ports.unit_of_work import UnitOfWork, UnitOfWorkFactory

# Runs in the unit of work that sets an account's first password, and gets the person's id.
AlsoFirst = Callable[[UnitOfWork, UserId], Awaitable[None]]


class FittingPassword(Frozen):
    """A new password that the rules have let pass for this address. A page asks them together with the rest of its form, and what sets the
    password need not ask again: a service that knows stolen passwords is asked once.
    """

    password: Password
    email: Email


class PasswordRules(Frozen):
    """The rules for every new password, on every way in."""

    common_passwords: CommonPasswords
    breached_passwords: BreachedPasswords
    shortest: int
    """The least length that the installation asks for."""

    def shortest_for(self, standing: PasswordStanding) -> int:
        return max(self.shortest, standing.shortest or 0)

    async def require(self, password: Password, email: Email, standing: PasswordStanding = STRANGER) -> None:
        """Raises `BadRequest`."""
        require_acceptable(password, email, self.shortest_for(standing), standing.names)
        if self.common_passwords.contains(password):
            raise BadRequest("The password is among the most common ones: choose another", words="password_common")
        if await self.breached_passwords.contains(password):
            raise BadRequest("The password is in a list of breached passwords: choose another", words="password_breached")

    async def fitting(self, password: Password, email: Email, standing: PasswordStanding = STRANGER) -> FittingPassword:
        """Raises `BadRequest`."""
        await self.require(password, email, standing)
        return FittingPassword(password, email)

    async def once(self, new: Password | FittingPassword, email: Email, standing: Callable[[], Awaitable[PasswordStanding]]) -> Password:
        """The password, after the rules were asked unless a page has done so for the same address. Raises `BadRequest`."""
        if isinstance(new, FittingPassword):
            if new.email == email:
                return new.password
            new = new.password
        await self.require(new, email, await standing())
        return new


class AccountPasswords(Frozen):
    """Sets, changes and resets the password of an account. It never hashes a password while a transaction is open."""

    unit_of_work: UnitOfWorkFactory
    rules: PasswordRules
    passwords: PasswordHasher
    standings: PasswordStandings
    realms: HomeRealms
    templates: MailTemplates
    buckets: SharedBuckets
    clock: Clock

    async def set(self, user: UserId, session: SessionId, new: Password | FittingPassword, actor: Actor) -> None:
        """Sets the first password of an account that signs in another way."""
        async with self.unit_of_work() as uow:
            found = await uow.account_passwords.find(user)
        if found is None:
            raise NotFound("There is no such account", words="account_unknown")
        if found.encoded is not None:
            raise BadRequest("The account already has a password: change it instead", words="has_password")
        password = await self.rules.once(new, found.email, partial(self.standing, user))
        encoded = await self.passwords.hash(password, Priority.PROVEN)
        async with self.unit_of_work() as uow:
            await uow.accounts.hold(user)
            # If an operator has just ended all ways into the account, no new password must get in afterwards.
            await require_living(uow, session)
            if not await uow.account_passwords.replace(user, None, encoded, self.clock.now()):
                raise BadRequest("The account already has a password: change it instead", words="has_password")
            await end_access(uow, user, self.clock.now(), but=session)
            await self._tell(uow, user, found, actor, how="set", first=True)
            await uow.commit()

    async def change(self, user: UserId, session: SessionId, current: Password, new: Password | FittingPassword, actor: Actor) -> None:
        """Changes the password. All other sessions end, and so does the trust in devices. Guesses at the current password are limited."""
        known = found(await self._guessed(user), "There is no such account", words="account_unknown")
        if known.encoded is None:
            raise BadRequest("The account has no password yet: set one first", words="no_password")
        password = await self.rules.once(new, known.email, partial(self.standing, user))
        if not await self.passwords.verify(known.encoded, current, Priority.PROVEN):
            await self._remember_wrong_password(user, actor)
            raise Unauthorized("The current password is wrong", words="wrong_current_password")
        encoded = await self.passwords.hash(password, Priority.PROVEN)
        async with self.unit_of_work() as uow:
            await uow.accounts.hold(user)
            if not await uow.account_passwords.replace(user, known.encoded, encoded, self.clock.now()):
                # Another request has changed the password meanwhile, so the password that was checked is no longer the current one.
                raise Unauthorized("The current password is wrong", words="wrong_current_password")
            await end_access(uow, user, self.clock.now(), but=session)
            await self._tell(uow, user, known, actor, how="changed")
            await uow.commit()

    async def standing(self, user: UserId) -> PasswordStanding:
        """What counts for this person's next password."""
        return await self.standings.get(user)

    async def encoded(self, new: FittingPassword) -> str:
        return await self.passwords.hash(new.password, Priority.PROVEN)

    async def set_first(self, uow: UnitOfWork, account: Account, encoded: str, actor: Actor) -> None:
        """Sets the first password of an account that nobody has used, within the caller's unit of work, for a person who has just proved
        the address. Nobody gets a mail: the person is the only one who has ever had the account.
        """
        await uow.account_passwords.reset(account.id, account.email, encoded, self.clock.now())
        event = Event("security.password.changed", actor, Target("user", str(account.id)), details={"how": "set"})
        await uow.record_in_every_log(event, account.id)

    async def is_current(self, user: UserId, current: Password, actor: Actor) -> bool:
        """Whether this is the password, for a form that has other errors too, so that the person hears of all at once. It counts as a
        guess. Raises `RateLimited`.
        """
        found = await self._guessed(user)
        if found is None or found.encoded is None or await self.passwords.verify(found.encoded, current, Priority.PROVEN):
            return True
        await self._remember_wrong_password(user, actor)
        return False

    async def was_just_chosen(self, user: UserId, password: Password) -> bool:
        """Returns whether this password was set or changed a moment ago, so that a form that is sent twice is no error. Only a moment,
        because a longer time would give a second way to try passwords.
        """
        async with self.unit_of_work() as uow:
            found = await uow.account_passwords.find(user)
        if found is None or found.encoded is None or not found.is_new(self.clock.now()):
            return False
        return await self.passwords.verify(found.encoded, password, Priority.PROVEN)

    async def reset(
        self,
        token: Token,
        new: Password,
        actor: Actor,
        *,
        keep_keys: Collection[UserKeyId] | None = None,
        keep_ways: Sequence[str] = (),
        first: AlsoFirst | None = None,
    ) -> PasswordChosen:
        """Sets a new password by a mailed link. All sessions end, and so does the trust in devices: the next sign-in asks for the second
        factor. Of the person's keys for the APIs of applications, only `keep_keys` stay; None: those that the person made end. A refused
        password leaves the link usable. `first` runs in the same unit of work if the account had no password. A locked account opens; of
        the passkeys and connected identities of the 30 days before the lock, only `keep_ways` stay. Raises `FactorWouldEnd`.
        """
        found = await self.look_at_link(token)
        await self.rules.require(new, found.email, await self.standing(found.user))
        encoded = await self.passwords.hash(new, Priority.PROVEN)
        actor = replace(actor, user=found.user)
        async with self.unit_of_work() as uow:
            await uow.accounts.hold(found.user)
            if first is not None:
                had = await uow.account_passwords.find(found.user)
                if had is not None and had.encoded is None:
                    await first(uow, found.user)
            # The time is read only now: a sign-in with the old password that came in between must count as earlier than the change.
            now = self.clock.now()
            if await uow.mailed_tokens.redeem(token.digest(), CHOOSES_PASSWORD, now) is None:
                raise refusal_of(await uow.mailed_tokens.find(token.digest(), CHOOSES_PASSWORD))
            reset = await uow.account_passwords.reset(found.user, found.email, encoded, now)
            if reset is None:
                raise refusal_of(None)
            before = reset.account
            ended: Sequence[PlacedUserKey] = ()
            if not before.address_is_proved:
                # Nobody has proved the address yet, so the second factor may be a stranger's, and would lock the owner out.
                await end_second_factor(uow, found.user, actor)
                await hand_over(uow, found.user, now, keeps_profile=before.address_is_vouched)
            else:
                await end_access(uow, found.user, now)
                ended = await end_user_keys(uow, found.user, now, actor, but=keep_keys)
            if before.awaits_new_password:
                await self._unlock(uow, before, keep_ways, actor)
            if before.opens_by_proof:
                await uow.record(opened_by_proof(found.user, actor))
            # A person who has just proved the address of a new account, and has chosen its first password, knows of that password.
            is_new = not before.address_is_proved and not reset.had_password
            await self._tell(uow, found.user, before, actor, how="reset", first=not reset.had_password, mails=not is_new, ended=ended)
            await uow.commit()
        return PasswordChosen(reset.had_password, before.address_is_vouched)

    async def keys_at_reset(self, token: Token) -> Sequence[HeldUserKey]:
        """The keys among which the reader of the mail says which ones stay. Nothing for an account whose address nobody has proved: with
        the first proof, all keys end. Raises what `look_at_link` raises.
        """
        found = await self.look_at_link(token)
        async with self.unit_of_work() as uow:
            account = (await uow.accounts.find_all([found.user])).get(found.user)
            if account is None or not account.address_is_proved:
                return ()
            return await uow.user_keys.held_by(found.user, self.clock.now())

    async def recent_at_reset(self, token: Token) -> Sequence[AddedWay]:
        """What was added in the 30 days before a lock, among which the reader of the mail says what is theirs. Nothing for an account that
        is not locked, or whose address nobody has proved: with the first proof, all of it ends. Raises what `look_at_link` raises.
        """
        found = await self.look_at_link(token)
        async with self.unit_of_work() as uow:
            account = (await uow.accounts.find_all([found.user])).get(found.user)
            if account is None or not account.awaits_new_password or not account.address_is_proved:
                return ()
            return await uow.account_locks.added_since(found.user, recent_from(account))

    async def was_just_reset(self, token: Token, new: Password) -> bool:
        """Returns whether this link has just been used to choose this password."""
        async with self.unit_of_work() as uow:
            found = await uow.mailed_tokens.find(token.digest(), CHOOSES_PASSWORD)
        return found is not None and found.was_just_used(self.clock.now()) and await self.was_just_chosen(found.user, new)

    async def look_at_link(self, token: Token) -> MailedToken:
        """Returns what a link is for, without using the link. Raises `BadRequest` when the link can no longer be used, and
        `ProviderRequired` when people of the domain sign in at a provider and a password would be of no use.
        """
        async with self.unit_of_work() as uow:
            found = await uow.mailed_tokens.find(token.digest(), CHOOSES_PASSWORD)
        if found is None or not found.is_usable(self.clock.now()):
            raise refusal_of(found)
        if await self.realms.requires_provider(found.email):
            async with self.unit_of_work() as uow:
                account = await uow.accounts.find(found.email)
            if await self.realms.closes_links(found.email, account):
                raise ProviderRequired
        return found

    @staticmethod
    async def _unlock(uow: UnitOfWork, before: Account, kept: Sequence[str], actor: Actor) -> None:
        """Ends what may be somebody else's. `before` is the account as it was when it was locked."""
        user, had_factor = before.id, await uow.mfa.is_enabled(before.id)
        recent = await uow.account_locks.added_since(user, recent_from(before))
        for one in lost_on_the_way(recent, kept):
            await end_added_way(uow, one, user, actor)
        if had_factor and not await uow.mfa.is_enabled(user):
            raise FactorWouldEnd
        await uow.record_in_every_log(account_unlocked(user, actor), user)

    async def _guessed(self, user: UserId) -> AccountPassword | None:
        """The account, for one guess at its password. Raises `RateLimited`."""
        wait = await self.buckets.take(PASSWORD_GUESSES, str(user))
        if wait > 0:
            raise RateLimited(retry_after=wait)
        async with self.unit_of_work() as uow:
            return await uow.account_passwords.find(user)

    async def _tell(
        self,
        uow: UnitOfWork,
        user: UserId,
        account: Account | AccountPassword,
        actor: Actor,
        *,
        how: str,
        first: bool = False,
        mails: bool = True,
        ended: Sequence[PlacedUserKey] = (),
    ) -> None:
        """`first`: the account had no password before, so the mail does not say that one was changed. `ended` are the keys that ended
        with the password. The mail also names those that go on, because they open the same doors as before.
        """
        if mails:
            name, language = "password_set" if first else "password_changed", account.language or actor.language
            to, now = account.email.address, self.clock.now()
            stay = named_keys(await uow.user_keys.held_by(user, now))
            mail = self.templates.mail(
                name,
                to,
                account=user,
                language=language,
                when=now,
                address=actor.address,
                keys_ended=named_keys(ended),
                keys_stay=stay,
            )
            await uow.jobs.add(mail.as_job())
        event = Event("security.password.changed", actor, Target("user", str(user)), details={"how": how})
        await uow.record_in_every_log(event, user)

    async def _remember_wrong_password(self, user: UserId, actor: Actor) -> None:
        async with self.unit_of_work() as uow:
            await uow.record(
                Event(
                    "security.password.changed",
                    actor,
                    Target("user", str(user)),
                    details={"reason": "wrong_password"},
                    success=False,
                )
            )
            await uow.commit()


class ForeignHashes(Frozen):
    """Counts the imported password hashes that remain, and tells the password hasher their formats."""

    store: ForeignHashStore
    passwords: PasswordHasher
    metrics: Metrics

    async def look(self) -> bool:
        """Tells the hasher which shapes remain. Returns whether any do. Raises `Overloaded`, `Unavailable`."""
        shapes = await self.store.shapes()
        await self.passwords.expect(shapes)
        return bool(shapes)

    async def count(self, *, remain: bool) -> None:
        """Sets the metric. Counts nothing where none `remain`."""
        self.metrics.foreign_passwords(await self.store.remaining() if remain else {})

    async def counts(self) -> PasswordCounts:
        """For an operator at the command line."""
        return await self.store.counts()

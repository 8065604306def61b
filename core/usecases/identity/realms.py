"""Home realm discovery: finds, for an email address, the identity provider of its user. Every sign-in uses it."""

from core.domain.identity.accounts import Account
from core.domain.identity.realms import ANY_WAY, LoginPolicy, Realm, WayIn, Word
from core.domain.mail import Email, mail_domain
from core.frozen import Frozen
from core.usecases.identity.upstream.providers import ProviderLooks
from ports.identity.sign_in import RealmLookup, RealmProviders


class HomeRealms(Frozen):
    lookup: RealmLookup
    providers: RealmProviders
    looks: ProviderLooks

    async def way_in(self, email: Email) -> WayIn:
        """Returns how people of the address's domain sign in. The domain alone decides, so the answer is the same for each of its
        addresses.
        """
        realm = await self._find(email)
        return ANY_WAY if realm is None else await self._way_into(realm)

    async def requires_provider(self, email: Email) -> bool:
        """Returns whether people of this domain sign in at a provider only, and not with Postern's own proofs."""
        return await self.is_closed(await self._find(email))

    async def closes_links(self, email: Email, account: Account | None, *, signs_in: bool = False) -> bool:
        """Returns whether a link to this account's mailbox is of no use, because people of its domain sign in at a provider only. Platform
        owners are free. A link that does not sign in is also of use to whoever was deactivated by another organization's directory than
        the domain's own, or whose account is locked: it opens the account, and then the person signs in at the provider. Nobody else
        could open it.
        """
        realm = await self._find(email)
        if realm is None or not await self.is_closed(realm):
            return False
        if account is None or account.is_platform_owner:
            return account is None
        if account.is_locked:
            return signs_in
        return signs_in or not account.opens_by_proof or account.deactivated_by == realm.organization

    async def is_closed(self, realm: Realm | None) -> bool:
        """Answers `requires_provider` for a realm that is known already. Looks the provider up, and asks it whether it answers, only if the
        answer depends on it.
        """
        if realm is None or realm.policy is LoginPolicy.PASSWORD_ALLOWED:
            return False
        if realm.policy is LoginPolicy.UPSTREAM_ONLY:
            return True
        way = await self._way_into(realm)
        return way.is_required and way.provider is not None and await self.looks.answers(realm, way.provider)

    async def of(self, account: Account) -> Realm | None:
        """Returns the realm of an account that was found otherwise than by its address."""
        domain = mail_domain(account.email)
        return await self.lookup.of_user(account.id, domain) if domain else None

    async def require(self, realm: Realm, word: Word, *, is_platform_owner: bool, person: Email | None = None) -> None:
        """Raises `ProviderRequired`, which names the `person` for the page that leads this person to the provider. An organization does not
        decide how platform owners sign in, because the organization could lock the platform owners out.
        """
        objection = realm.objection(word)
        if objection is not None and not is_platform_owner and await self.is_closed(realm):
            objection.person = person
            raise objection

    async def _find(self, email: Email) -> Realm | None:
        domain = mail_domain(email)
        return await self.lookup.find(domain) if domain else None

    async def _way_into(self, realm: Realm) -> WayIn:
        return WayIn(realm, await self.providers.find(realm) if realm.provider else None)

"""Home realm discovery: from an address to where its person signs in. All ways to sign in ask here."""

from core.domain.email import Email, mail_domain
from core.domain.identity.accounts import Account
from core.domain.identity.realms import ANY_WAY, LoginPolicy, Realm, WayIn, Word
from core.frozen import Frozen
from ports.identity.realms import RealmLookup, RealmProviders


class HomeRealms(Frozen):
    lookup: RealmLookup
    providers: RealmProviders

    async def way_in(self, email: Email) -> WayIn:
        """The domain alone decides: it is the same for every address of it."""
        realm = await self._find(email)
        return ANY_WAY if realm is None else await self._way_into(realm)

    async def requires_provider(self, email: Email) -> bool:
        """Whether people of this domain sign in at a provider, and in no way of ours."""
        return await self.is_closed(await self._find(email))

    async def is_closed(self, realm: Realm | None) -> bool:
        """The same for a realm that is known. The provider is looked up only where that decides."""
        if realm is None or realm.policy is LoginPolicy.PASSWORD_ALLOWED:
            return False
        return realm.policy is LoginPolicy.UPSTREAM_ONLY or (await self._way_into(realm)).is_required

    async def of(self, account: Account) -> Realm | None:
        """For somebody whose account was not found by its address."""
        domain = mail_domain(account.email)
        return await self.lookup.of_user(account.id, domain) if domain else None

    async def require(self, realm: Realm, word: Word, *, is_platform_owner: bool, person: Email | None = None) -> None:
        """Raises `ProviderRequired`, which names the `person` to whoever leads them to the provider. No organization decides how the owners
        of the platform sign in: it could shut them out.
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

"""Stores of organizations and of their settings, such as sign-in rules, domains, profile fields, branding, texts and mail server."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol, TypeVar
from uuid import UUID

from core.domain.identifiers import (
    DomainId,
    JobId,
    LoginEventId,
    LogoId,
    MailServerId,
    OrganizationId,
    OwnTextId,
    ProfileFieldId,
    ServiceId,
    SessionId,
    TierId,
    UserId,
)
from core.domain.identity.login_events import LoginEvent
from core.domain.identity.risk_policies.owner_mails import NoticedSignIn
from core.domain.identity.risk_policies.policies import Decided, RiskPolicies
from core.domain.identity.risk_policies.shadow import PastPerson, PastSignIn
from core.domain.mail import Mail
from core.domain.secrets import Secret
from core.domain.tenancy.branding import Logo, LookPicture, OrganizationLook
from core.domain.tenancy.domains import NO_PROVIDER, Domain, DomainRoute, NamedProvider
from core.domain.tenancy.mail_servers import MailServer
from core.domain.tenancy.offboarding import ActJudgment, OffboardingDeadline, WatchedAct
from core.domain.tenancy.organizations import Metadata, Organization, OrganizationOverview
from core.domain.tenancy.profile_fields import FieldValue, ProfileField
from core.domain.tenancy.profile_values import AskedFields, HeldPerson, KeptBy
from core.domain.tenancy.sign_in_rules import RulesAsked, SignInRules
from core.domain.tenancy.texts import KeptText, NoticeTimes, SpokenLanguages
from core.domain.tenancy.tiers import Tier, UserLimit, user_limit
from core.frozen import Frozen
from ports.tenancy.receivers import Owner


class HeldOrganization(Frozen):
    """An organization that stays as it is until the unit of work ends, with the numbers that its limits come from."""

    organization: Organization
    tier: Tier
    member_count: int
    owner_governs: bool = False
    """The owner is a platform owner."""

    @property
    def user_limit(self) -> UserLimit:
        return user_limit(self.organization.max_users, self.tier.default_max_users)


class Added(Frozen):
    """The owner has `owned` other organizations, of which `waiting` wait for approval."""

    waiting: int
    owned: int


class OrganizationStore(Protocol):
    """Outside a unit of work, `list` and `find` are one statement and one round trip each. The other methods need a unit of work.
    Organizations that are being deleted do not exist here.
    """

    async def list(self, user: UserId, session: SessionId | None = None) -> Sequence[OrganizationOverview]:
        """The organizations that this person belongs to, by name. If there are more than `MOST_LISTED`, those that the person owns come
        first, then the oldest memberships. `session` is the one that asks, if its directory's second factor may count.
        """

    async def find(self, organization: OrganizationId, user: UserId) -> OrganizationOverview | None:
        """None when there is no such organization, or the person is not a member."""

    async def add(self, organization: Organization) -> Added | None:
        """None when the slug is taken: of two callers, one gets None."""

    async def hold(self, organization: OrganizationId) -> HeldOrganization | None:
        """One change to the organization, or to the number of its members or services, at a time. Comes first in its unit of work. None
        when there is no such organization.
        """

    async def save(self, organization: Organization) -> None:
        """Saves everything but id, slug and creation. After `hold`."""

    async def save_metadata(self, organization: OrganizationId, metadata: Metadata, at: datetime) -> bool:
        """False when the organization has these already. After `hold`."""

    async def delete(self, organization: OrganizationId, at: datetime) -> bool:
        """The organization is gone from every answer with the commit. Its rows are removed in batches. False when it is gone already: of
        two callers, one gets True.
        """


class Tiers(Protocol):
    """Outside any unit of work, because tiers are never removed."""

    async def list(self) -> Sequence[Tier]:
        """Cheapest first."""

    async def find(self, tier: TierId) -> Tier | None:
        """None when there is no such tier."""


class HeldRules(Frozen):
    """The rules of an organization that is held, and whether the person who asks has a second factor, and a passkey."""

    rules: SignInRules
    has_second_factor: bool
    has_passkey: bool


class RulesReach(Frozen):
    """The rows that a change of the rules would reach, each counted up to a limit."""

    without_second_factor: int
    uninvitable: int
    administrators_without: int
    members_without: int


class SignInRulesStore(Protocol):
    """Outside a unit of work, `find`, `reach` and `knows_role` are one statement and one round trip each. The other methods need a unit of
    work. Statements that enforce the rules read them on their own.
    """

    async def find(self, organization: OrganizationId) -> SignInRules | None:
        """None when there is no such organization."""

    async def reach(self, organization: OrganizationId, asked: RulesAsked) -> RulesReach:
        """At most `MOST_COUNTED` rows of each kind are read."""

    async def knows_role(self, organization: OrganizationId, role: str) -> bool:
        """Whether an application of the organization has this role, by the slugs of both: `billing/approver`."""

    async def get(self, organization: OrganizationId, user: UserId) -> HeldRules:
        """Called after the organization is held, so that one change follows the other."""

    async def save(self, organization: OrganizationId, rules: SignInRules) -> None:
        """A role that has ended meanwhile is stored as none."""


Proved = TypeVar("Proved", bound=Domain)


class Verified(Frozen):
    is_new: bool
    """The domain was not verified before."""


class ProofStore(Protocol[Proved]):
    """The proofs of domains. When a member acts, the caller has already locked the organization. Only PostgreSQL implements
    `ProofStore`, once for domains and once for domain routes.
    """

    async def claim_due(self, at: datetime, until: datetime, limit: int) -> Sequence[Proved]:
        """Verified domains whose check is due, the longest overdue first. No other process gets them before `until`."""

    async def verify(self, domain: Proved, at: datetime, next_check_at: datetime) -> Verified | None:
        """None when another organization has verified the domain for anything, or when this organization uses another domain by now. Of two
        organizations that prove the same domain, one gets it. Of several members who verify it at once, one learns that it is new.
        """

    async def seen(self, domain: DomainId, at: datetime, next_check_at: datetime) -> None:
        """The proof of a verified domain was found again."""

    async def missed(self, domain: Proved, at: datetime, next_check_at: datetime, most: int) -> Proved | None:
        """The proof of a verified domain was not found. After `most` times in a row, the domain is no longer verified. None when the domain
        was not verified, or somebody has seen or missed its proof since the caller read it.
        """

    async def owners(self, organization: OrganizationId) -> Sequence[Owner]: ...


class DomainStore(ProofStore[Domain], Protocol):
    """Outside a unit of work, `find` and `claim_due` are one statement and one round trip each. The other methods need a unit of work."""

    async def find(self, organization: OrganizationId) -> Domain | None: ...

    async def save(self, domain: Domain) -> None:
        """Replaces the domain that the organization had."""

    async def remove(self, organization: OrganizationId) -> Domain | None:
        """Returns the domain that was removed."""


class ExistingRoutes(Frozen):
    """The reasons against another route."""

    count: int
    has_domain: bool
    """The organization has a route for the domain."""


class HeldRoute(Frozen):
    route: DomainRoute
    provider_is_known: bool
    """Whether the organization has the provider that the caller asked about."""


class DomainRouteStore(ProofStore[DomainRoute], Protocol):
    """Outside a unit of work, `list`, `find_route` and `claim_due` are one statement and one round trip each. The other methods need a unit
    of work. When a member acts, the caller has already locked the organization. Only PostgreSQL implements `DomainRouteStore`.
    """

    async def list(self, organization: OrganizationId) -> Sequence[DomainRoute]:
        """Oldest first."""

    async def find_route(self, organization: OrganizationId, route: DomainId) -> DomainRoute | None: ...

    async def add(self, route: DomainRoute, most: int, *, provider_is_known: bool) -> DomainRoute | None:
        """A route for the organization's own domain gets the token that proves the domain already: one proof is enough for both. None when
        the domain has a route, when there are as many routes as there may be, or when neither `provider_is_known` nor the provider exists.
        Of two callers, one gets the route.
        """

    async def standing(self, organization: OrganizationId, domain: str) -> ExistingRoutes: ...

    async def find(self, organization: OrganizationId, route: DomainId, provider: NamedProvider = NO_PROVIDER) -> HeldRoute | None:
        """The route, and whether the organization has this provider, or a client at it."""

    async def save(self, route: DomainRoute) -> None:
        """Changes where the route leads; its domain and proof stay as they are."""

    async def remove(self, route: DomainId) -> None: ...


class ProfileFieldStore(Protocol):
    """`organization` is None for the fields of the installation. Outside a unit of work, `list` is one statement and one round trip. The
    other methods need a unit of work.
    """

    async def list(self, organization: OrganizationId | None) -> Sequence[ProfileField]:
        """All fields, by position and key."""

    async def hold_all(self, organization: OrganizationId | None) -> Sequence[ProfileField]:
        """All fields, by position and key. They stay as they are until the unit of work ends. A change of the installation's fields waits
        here for another one; who changes an organization's fields holds the organization.
        """

    async def add(self, field: ProfileField) -> bool:
        """False when the key is taken: of two callers, one gets False."""

    async def save(self, field: ProfileField) -> None:
        """Saves everything except key and kind. After `hold_all`."""

    async def delete(self, field: ProfileFieldId, at: datetime) -> None:
        """The field is gone at once. The job of `purge_job` removes its values. After `hold_all`."""


class ProfileValueStore(Protocol):
    """`organization` is None for what the installation keeps. Outside a unit of work, `read_tied`, `read_all` and `asked` are one statement
    and one round trip each. The other methods need a unit of work.
    """

    async def read_tied(self, user: UserId, organization: OrganizationId | None) -> HeldPerson | None:
        """Every declared field, with the values of a person who is tied to the organization: as a member, through its directory, or as a
        user of one of its services. Everybody who has an account is tied to the installation. None for anybody else.
        """

    async def read_all(self, user: UserId, slug: str | None, most: int) -> Sequence[KeptBy]:
        """What the installation keeps of the person, and then, by slug, every organization of theirs that has fields; with a slug, only
        this organization. Keepers without fields are left out.
        """

    async def hold(self, user: UserId, organization: OrganizationId | None) -> HeldPerson | None:
        """The account, the person's ties to the organization, the fields and the values stay as they are until the unit of work ends. None
        for a person who does not exist, was forgotten, or has no tie to the organization.
        """

    async def save(
        self, user: UserId, organization: OrganizationId | None, values: Mapping[ProfileFieldId, FieldValue], at: datetime
    ) -> None:
        """Saves all values of the person. After `hold`."""

    async def asked(self, user: UserId, slug: str | None, service: ServiceId | None) -> Sequence[AskedFields]:
        """The fields that a page has to ask the person for now: those of the installation, and those of the organization with this slug,
        whose service the flow leads to; without a slug, of every organization that the person is a member of by their own act.
        """

    async def enter(self, user: UserId, organization: OrganizationId, service: ServiceId, at: datetime) -> None:
        """Makes a person who has no tie to the organization a user of its service, if anybody may sign in there. The tie is no consent."""

    async def remember_asked(
        self, user: UserId, organization: OrganizationId | None, fields: Sequence[ProfileFieldId], at: datetime
    ) -> None:
        """No page asks the person for these fields again, unless they are required. After `hold`."""


class MetSignIn(Frozen):
    """A sign-in about which a rule has decided, with the person's address of today; None if the account is deleted."""

    event: LoginEvent
    email: str | None
    decided: Decided


class RiskPolicyStore(Protocol):
    """Outside a unit of work, `find`, `people`, `older`, `sign_ins`, `addresses`, `excepted`, `met`, `noticed` and `owners` are one
    statement and one round trip. `save` and `hold_installation` need a unit of work; before `save`, the organization or the installation
    is held. Sign-ins read the rules on their own. Where an organization may be None, this means the installation.
    """

    async def find(self, organization: OrganizationId | None) -> RiskPolicies | None:
        """None when there is no such organization."""

    async def hold_installation(self) -> None:
        """Nobody else changes the rules of the installation until the transaction ends."""

    async def save(self, organization: OrganizationId | None, rules: RiskPolicies) -> None: ...

    async def people(self, organization: OrganizationId | None) -> Mapping[UserId, PastPerson]:
        """What the organization knows of its members today; of the installation, its platform owners."""

    async def older(self, organization: OrganizationId | None, since: datetime, most: int) -> UUID | None:
        """The newest sign-in since then that has at least so many after it. None when there are no more altogether."""

    async def sign_ins(self, organization: OrganizationId | None, since: datetime, after: UUID | None, limit: int) -> Sequence[PastSignIn]:
        """The next of the sign-ins that led to the organization, the oldest first. With `after`, those after this one."""

    async def addresses(self, users: Sequence[UserId]) -> Mapping[UserId, str]:
        """The addresses of these people today."""

    async def excepted(self, organization: OrganizationId, users: Sequence[UserId]) -> Mapping[UserId, str]:
        """The addresses of those of these people who are members. The organization learns the address of nobody else by their id."""

    async def met(self, organization: OrganizationId | None, before: LoginEventId | None, limit: int) -> Sequence[MetSignIn]:
        """The sign-ins about which a rule has decided, the newest first."""

    async def noticed(self, login: LoginEventId) -> NoticedSignIn | None:
        """What owners hear of this sign-in. None when it has been deleted or forgotten, or its person has no account any more."""

    async def owners(self, organization: OrganizationId | None) -> Sequence[Owner]:
        """Those of the installation have no organization's name."""


class LookStore(Protocol):
    """Outside a unit of work, `find` and `logo` are one statement and one round trip each. The other methods need a unit of work in
    which the caller has already locked the organization. Only PostgreSQL implements `LookStore`.
    """

    async def find(self, organization: OrganizationId) -> OrganizationLook | None:
        """None when there is no such organization."""

    async def logo(self, digest: str) -> Logo | None:
        """A picture of an active organization's looks, of one of its services, or of a further provider. None when none of them has one
        with this digest.
        """

    async def save(self, organization: OrganizationId, look: OrganizationLook) -> None:
        """Saves everything but the logo itself."""

    async def replace_picture(
        self,
        organization: OrganizationId,
        kind: LookPicture,
        picture: Logo | None,
        id: LogoId,  # noqa: A002 - the noun's own word
    ) -> None:
        """With None, removes the picture. What names a picture other than the logo is saved with the looks."""


class NoticeStore(Protocol):
    """Outside a unit of work, `find` is one statement and one round trip. `save` needs a unit of work that holds the organization."""

    async def find(self, organization: OrganizationId) -> NoticeTimes | None:
        """None when there is no such organization."""

    async def save(self, organization: OrganizationId, times: NoticeTimes) -> None: ...


class OwnTextStore(Protocol):
    """None for the organization is the installation. Outside a unit of work, `list`, `hosts` and `languages` are one statement and one
    round trip each. The other methods need a unit of work. Those that change texts need one that holds the organization or, for the
    installation, the platform owners.
    """

    async def list(self, organization: OrganizationId | None) -> Sequence[KeptText]:
        """All of them, by language and key."""

    async def hosts(self, organization: OrganizationId) -> Sequence[str]:
        """The domains that the organization has proved, for people's pages or for their addresses."""

    async def put(self, texts: Sequence[KeptText]) -> None:
        """Each in place of the text of the same language and key."""

    async def remove(self, texts: Sequence[OwnTextId]) -> None: ...

    async def languages(self) -> Sequence[str]:
        """Those in which anybody has own texts."""

    async def claim_uncompared(self, language: str, version: str, limit: int) -> Sequence[KeptText]:
        """Own texts of the language, of anybody, that were not compared with this version of ours. Nobody else gets them meanwhile."""

    async def mark_compared(self, texts: Sequence[OwnTextId], outdated: Sequence[OwnTextId], version: str) -> None:
        """Beneath `outdated`, ours have changed; beneath the others of `texts`, they have not."""

    async def save_digest(self, organization: OrganizationId | None, digest: str | None) -> None:
        """What tells pages and mails that there are other texts now."""


class SpokenLanguageStore(Protocol):
    """Outside a unit of work, `find` is one statement and one round trip. `save` needs a unit of work in which the caller has already
    locked the organization. Only PostgreSQL implements `SpokenLanguageStore`.
    """

    async def find(self, organization: OrganizationId) -> SpokenLanguages | None:
        """None when there is no such organization."""

    async def save(self, organization: OrganizationId, spoken: SpokenLanguages) -> None: ...


class SealedMailServer(Frozen):
    server: MailServer
    sealed_password: bytes


class MailServerStore(Protocol):
    """Outside a unit of work, `find` and `failed` are one statement and one round trip each. The other methods need a unit of work. When
    a member acts, the caller has already locked the organization. Only PostgreSQL implements `MailServerStore`.
    """

    async def find(self, organization: OrganizationId) -> SealedMailServer | None: ...

    async def failed(self, server: MailServerId, at: datetime, rests_until: datetime) -> datetime | None:
        """Records a failure. Returns since when the server fails; None when there is no such mail server any more."""

    async def save(self, server: MailServer, sealed_password: bytes) -> None:
        """Replaces the server that the organization had, and forgets its failures."""

    async def remove(self, organization: OrganizationId) -> MailServer | None:
        """Returns the server that was removed."""

    async def fall_back(self, server: MailServerId, failing_since: datetime, at: datetime) -> MailServer | None:
        """From now on, the installation's server does the work of one that has failed since this moment or earlier. None when the server
        has not failed for so long, or had fallen back already: of two callers, one gets None.
        """

    async def recover(self, server: MailServerId) -> bool:
        """The server works again. True when it had fallen back: of two callers, one gets True."""

    async def owners(self, organization: OrganizationId) -> Sequence[Owner]: ...


class LateCount(Frozen):
    """How many receivers of an organization were late since its owners were told last."""

    organization: OrganizationId
    slug: str
    late: int


class OffboardingDeadlineStore(Protocol):
    """Outside a unit of work, `find`, `enter` and `claim` are one statement and one round trip each. The other methods need a unit of work.
    When a member acts, the caller has already locked the organization. Only PostgreSQL implements `OffboardingDeadlineStore`.
    """

    async def find(self, organization: OrganizationId) -> OffboardingDeadline | None: ...

    async def save(self, deadline: OffboardingDeadline) -> None:
        """Acts are watched from the first deadline on, and not again from the beginning when it changes."""

    async def remove(self, organization: OrganizationId) -> OffboardingDeadline | None:
        """Returns the deadline that was removed. With it, nothing of the organization is watched any more."""

    async def enter(self, now: datetime, most: int) -> int:
        """Watches the acts since the last look, of so many organizations at most. Returns of how many organizations it has looked at."""

    async def claim(self, now: datetime, most: int) -> Sequence[WatchedAct]:
        """Watched acts that are due, which no other caller gets before `LEASE` is over."""

    async def judge(self, watched: WatchedAct, judgment: ActJudgment) -> bool:
        """False when the act is watched no longer, or other receivers of it were reported meanwhile."""

    async def add_late(self, organization: OrganizationId, late: int) -> None:
        """So many receivers more that owners have to hear of."""

    async def take_late(self, now: datetime, since: datetime, most: int) -> Sequence[LateCount]:
        """The organizations whose owners have to hear of something, and have had no mail since then. They have had one now."""

    async def owners(self, organization: OrganizationId) -> Sequence[Owner]: ...


class OrganizationPost(Protocol):
    """Hands mail to servers that organizations name. A guarded SMTP client implements it."""

    def may_use(self, host: str) -> bool:
        """False for an address that is never called. A host name that is permitted here may still lead to such an address later."""

    async def send(self, server: MailServer, password: Secret, mail: Mail, id: JobId) -> None:  # noqa: A002 - the noun's own word
        """As `MailTransport.send`: raises `MailRefused` and `MailDelayed`."""

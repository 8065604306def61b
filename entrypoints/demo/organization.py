"""The organization of the demo with its people and its service. The first run makes all of these, and later runs find them again."""

from typing import Final

from core.domain.email import Email
from core.domain.errors import NotFound
from core.domain.identifiers import ClientId, MembershipId, OrganizationId, PlanId, ServiceId, UserId
from core.domain.identity.accounts import signed_up, unverified_account
from core.domain.identity.sign_in import PASSWORD_PROVIDER
from core.domain.record.events import SYSTEM, Event, Target
from core.domain.secrets import Password
from core.domain.services.plans import default_plan, plan_created
from core.domain.services.services import NewService, Service, ServiceChange, ServiceType, changed, service_created, service_updated
from core.domain.tenancy.members import Membership
from core.domain.tenancy.organizations import Organization, OrganizationStatus, organization_created
from core.domain.tenancy.roles import BuiltInRole
from core.domain.tenancy.tiers import FREE
from core.frozen import Frozen, replace
from entrypoints.bootstrap import Postern
from entrypoints.failures import StartFailed
from ports.unit_of_work import UnitOfWork

SLUG: Final = "demo"
SERVICE: Final = "notes"
# No mail can be delivered to these addresses, so no other person has an account with one of these addresses.
OWNER: Final = "ada@example.org"
MEMBER: Final = "bob@example.org"
PARTNER_SLUG: Final = "demo-partner"
PARTNER: Final = "carol@example.org"


class Demo(Frozen):
    organization: Organization
    service: Service
    password: Password
    """The password of both people. Each run sets a new password, because only a hash of the old password is stored."""


async def make(postern: Postern, home: str) -> Demo:
    """Makes or finds everything in one transaction. `home` is the URL of the application. Raises `StartFailed` when another organization
    has the demo's slug, or when the demo's organization or an account is not active.
    """
    known = await _known(postern, SLUG, OWNER)
    password = postern.foundation.secrets.password()
    encoded = await postern.identity.passwords.hash(password)
    async with postern.foundation.unit_of_work() as uow:
        owner, member = [await _person(postern, uow, address, encoded) for address in (OWNER, MEMBER)]
        organization = known or await _organization(postern, uow, owner, member)
        service = await _service(postern, uow, organization, home)
        await uow.commit()
    return Demo(organization, service, password)


async def make_partner(postern: Postern, password: Password) -> Organization:
    """Makes or finds the other organization, whose owner has this password, too. Raises `StartFailed` as `make` does."""
    known = await _known(postern, PARTNER_SLUG, PARTNER)
    encoded = await postern.identity.passwords.hash(password)
    async with postern.foundation.unit_of_work() as uow:
        owner = await _person(postern, uow, PARTNER, encoded)
        organization = known or await _organization(postern, uow, owner, None, slug=PARTNER_SLUG, name="Demo Partner")
        await uow.commit()
    return organization


async def _known(postern: Postern, slug: str, owner: str) -> Organization | None:
    try:
        found = await postern.platform.governance.show(slug)
    except NotFound:
        return None
    if found.owner is None or found.owner.email != owner:
        raise StartFailed(f"There is an organization `{slug}` already, and it is not the demo's")
    if not found.organization.is_active:
        raise StartFailed(f"The demo's organization is not active: `postern organization activate --organization {slug}` changes that")
    return found.organization


async def _person(postern: Postern, uow: UnitOfWork, address: str, encoded: str) -> UserId:
    email: Email = postern.foundation.email_syntax.parse(address)
    now = postern.foundation.clock.now()
    account = await uow.accounts.find(email)
    if account is None:
        user = UserId(postern.foundation.ids.new())
        await uow.accounts.add(replace(unverified_account(user, email, now), email_verified_at=now), encoded)
        await uow.record(signed_up(user, SYSTEM, PASSWORD_PROVIDER))
        return user
    if await uow.account_passwords.reset(account.id, email, encoded, now) is None:
        raise StartFailed(f"The account of {email} is deactivated: `postern user activate --email {email}` changes that")
    return account.id


async def _organization(
    postern: Postern, uow: UnitOfWork, owner: UserId, member: UserId | None, *, slug: str = SLUG, name: str = "Demo Company"
) -> Organization:
    now = postern.foundation.clock.now()
    ids = postern.foundation.ids
    organization = Organization(
        id=OrganizationId(ids.new()),
        slug=slug,
        name=name,
        status=OrganizationStatus.ACTIVE,
        tier=FREE,
        owner=owner,
        approved_at=now,
        created_at=now,
        updated_at=now,
    )
    if await uow.organizations.add(organization) is None:
        raise StartFailed("The demo was deleted a moment ago, or is being made at this moment: try again")
    await uow.record(organization_created(organization, SYSTEM))
    for user, role in ((owner, BuiltInRole.OWNER), (member, BuiltInRole.MEMBER)):
        if user is not None:
            await uow.members.add(Membership(MembershipId(ids.new()), organization.id, user, role.value, now, own_since=now))
    if member is None:
        return organization
    joined = Event("user.joined", SYSTEM, Target("user", str(member)), organization.id, {"role": BuiltInRole.MEMBER.value})
    await uow.record(joined)
    return organization


async def _service(postern: Postern, uow: UnitOfWork, organization: Organization, home: str) -> Service:
    """Makes or updates the service. The service is a public client, so that no client secret has to be kept between two runs."""
    now = postern.foundation.clock.now()
    ids = postern.foundation.ids
    before = await uow.services.hold(organization.id, SERVICE)
    if before is not None:
        addresses = ServiceChange(redirect_uris=(f"{home}/callback",), post_logout_redirect_uris=(f"{home}/",))
        after = changed(before, addresses, now)
        if after != before:
            await uow.services.save(after)
            await uow.record(service_updated(before, after, SYSTEM))
        return after
    wanted = NewService(
        slug=SERVICE,
        name="Demo Notes",
        service_type=ServiceType.WEB,
        redirect_uris=(f"{home}/callback",),
        post_logout_redirect_uris=(f"{home}/",),
    )
    service = wanted.service(ServiceId(ids.new()), organization.id, ClientId(str(ids.new())), now)
    plan = default_plan(PlanId(ids.new()), service.id, now)
    await uow.services.add(service)
    await uow.plans.add(plan)
    await uow.record_all([service_created(service, SYSTEM), plan_created(plan, service.organization, service.slug, SYSTEM)])
    return service

"""Sets up the demo: two tenants with users, a web application, an MCP server and a client of it, and a SAML application."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from core.domain.errors import NotFound
from core.domain.federation.saml.configurations import ConfigurationChange
from core.domain.identifiers import ClientId, MembershipId, OrganizationId, PlanId, ServiceId, UserId
from core.domain.identity.accounts import Account, signed_up, unverified_account
from core.domain.identity.sign_in import PASSWORD_PROVIDER
from core.domain.mail import Email
from core.domain.record.events import SYSTEM, Event, Target
from core.domain.secrets import Password, Secret
from core.domain.services.plans import default_plan, plan_created
from core.domain.services.services import NewService, Service, ServiceChange, ServiceType, changed, service_created, service_updated
from core.domain.tenancy.members import Membership
from core.domain.tenancy.organizations import Organization, OrganizationStatus, organization_created
from core.domain.tenancy.roles import BuiltInRole
from core.domain.tenancy.tiers import FREE
from core.frozen import Frozen, replace
from entrypoints.bootstrap import Postern
from entrypoints.cli.configuration.operators import DocumentOperator
from entrypoints.cli.operating import acting, for_owner
from entrypoints.demo.tools import SCOPE, DemoAssistant, DemoTools
from entrypoints.demo.wiki import DemoWiki
from entrypoints.failures import StartFailed
from entrypoints.http.routes.configuration.applying import Configuring
from ports.unit_of_work import UnitOfWork

SLUG: Final = "demo"
SERVICE: Final = "notes"
# The domain is reserved (RFC 2606), so nobody receives mail there, and no guide tells people to use it.
OWNER: Final = "ada@demo.postern.example"
MEMBER: Final = "bob@demo.postern.example"
PARTNER_SLUG: Final = "demo-partner"
PARTNER: Final = "carol@demo.postern.example"
_VERSION: Final = 8


class Demo(Frozen):
    organization: Organization
    service: Service
    password: Password
    """The password of all its people. Each run sets a new password, because only a hash of the old password is stored."""


async def make_organizations(postern: Postern, home: str, *, partner: bool = False) -> Demo:
    """Makes or finds everything in one transaction; with `partner`, another organization with an owner, too. `home` is the URL of the
    application. Raises `StartFailed`, and has changed nothing then, when somebody else has made an account or an organization that is
    called as the demo's, or when one of the demo's own is not active or governs the installation.

    The first run creates them, and later runs find them again. Its users and organizations have IDs of version 8. Nothing else gives such
    IDs: those of `SystemIds` are of version 7. So an account or an organization that others created never passes for the demo's, whatever
    it is called and whoever hands it over.
    """
    known = await _known(postern, SLUG, OWNER)
    known_partner = await _known(postern, PARTNER_SLUG, PARTNER) if partner else None
    password = postern.foundation.secrets.password()
    encoded = await postern.identity.passwords.hash(password)
    async with postern.foundation.unit_of_work() as uow:
        owner, member = [await _person(postern, uow, address, encoded) for address in (OWNER, MEMBER)]
        organization = known or await organization_of(postern, uow, owner, SLUG, "Demo Company")
        await _join(postern, uow, organization, member)
        service = await _service(postern, uow, organization, home)
        if partner:
            other = await _person(postern, uow, PARTNER, encoded)
            if known_partner is None:
                await organization_of(postern, uow, other, PARTNER_SLUG, "Demo Partner")
        await uow.commit()
    return Demo(organization, service, password)


def _new_id(postern: Postern) -> UUID:
    """An id with the demo's mark, ordered by time as all ids."""
    return UUID(int=postern.foundation.ids.new().int & ~(0xF << 76) | _VERSION << 76)


def _made_by_demo(made: UUID) -> bool:
    return made.version == _VERSION


async def _known(postern: Postern, slug: str, owner: str) -> Organization | None:
    try:
        found = await postern.platform.governance.show(slug)
    except NotFound:
        return None
    if not _made_by_demo(found.organization.id) or found.owner is None or found.owner.email != owner:
        raise StartFailed(
            f"There is an organization `{slug}` already, and the demo did not make it, or its owner is not {owner}: the demo changes"
            f" nothing. If an earlier version of the demo made it, `postern organization delete --organization {slug}` makes room"
        )
    if not found.organization.is_active:
        raise StartFailed(f"The demo's organization is not active: `postern organization activate --organization {slug}` changes that")
    return found.organization


async def _person(postern: Postern, uow: UnitOfWork, address: str, encoded: str) -> UserId:
    email: Email = postern.foundation.email_syntax.parse(address)
    now = postern.foundation.clock.now()
    account = await uow.accounts.find(email)
    if account is None:
        user = UserId(_new_id(postern))
        if not await uow.accounts.add(replace(unverified_account(user, email, now), email_verified_at=now), encoded):
            raise StartFailed(f"Somebody is making an account for {email} at this moment: try again")
        await uow.record(signed_up(user, SYSTEM, PASSWORD_PROVIDER))
        return user
    _require_own(account)
    reset = await uow.account_passwords.reset(account.id, email, encoded, now)
    if reset is None:
        raise StartFailed(f"The account of {email} is deactivated: `postern user activate --email {email}` changes that")
    # As it is now that it is held: somebody may have promoted it since it was found.
    _require_own(reset.account)
    event = Event("security.password.changed", SYSTEM, Target("user", str(account.id)), details={"how": "reset"})
    await uow.record_in_every_log(event, account.id)
    return account.id


def _require_own(account: Account) -> None:
    if not _made_by_demo(account.id):
        raise StartFailed(f"{account.email} has an account already, and the demo did not make it: the demo changes nothing")
    if account.is_platform_owner:
        raise StartFailed(f"{account.email} is a platform owner by now, and the demo would print a password of this account")


async def organization_of(postern: Postern, uow: UnitOfWork, owner: UserId, slug: str, name: str) -> Organization:
    now = postern.foundation.clock.now()
    organization = Organization(
        id=OrganizationId(_new_id(postern)),
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
    await uow.members.add(membership_of(postern, organization, owner, BuiltInRole.OWNER))
    return organization


async def _join(postern: Postern, uow: UnitOfWork, organization: Organization, member: UserId) -> None:
    if await uow.members.add(membership_of(postern, organization, member, BuiltInRole.MEMBER)):
        role = {"role": BuiltInRole.MEMBER.value}
        await uow.record(Event("user.joined", SYSTEM, Target("user", str(member)), organization.id, role))


def membership_of(postern: Postern, organization: Organization, user: UserId, role: BuiltInRole) -> Membership:
    now = postern.foundation.clock.now()
    return Membership(MembershipId(postern.foundation.ids.new()), organization.id, user, role.value, now, own_since=now)


async def trusted_service(postern: Postern, uow: UnitOfWork, organization: Organization, name: str, callback: str) -> Service:
    """A new public client that asks nobody for consent."""
    ids, now = postern.foundation.ids, postern.foundation.clock.now()
    wanted = NewService(slug=organization.slug, name=name, service_type=ServiceType.WEB, redirect_uris=(callback,), trusted=True)
    return await _added(postern, uow, wanted.service(ServiceId(ids.new()), organization.id, ClientId(str(ids.new())), now))


async def _added(postern: Postern, uow: UnitOfWork, service: Service) -> Service:
    plan = default_plan(PlanId(postern.foundation.ids.new()), service.id, service.created_at)
    await uow.services.add(service)
    await uow.plans.add(plan)
    await uow.record_all([service_created(service, SYSTEM), plan_created(plan, service.organization, service.slug, SYSTEM)])
    return service


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
    return await _added(postern, uow, wanted.service(ServiceId(ids.new()), organization.id, ClientId(str(ids.new())), now))


ASSISTANT: Final = "assistant"
WIKI: Final = "wiki"


class Programs(Frozen):
    tools: DemoTools
    assistant: DemoAssistant
    wiki: DemoWiki


async def make_everything(postern: Postern, made: Demo, programs: Programs, issuer: str) -> None:
    """Makes or finds what the programs need in the demo's two organizations, and tells them. Raises `StartFailed`.

    What the programs need in Postern is a configuration file, which the operator applies as `postern config apply` does.
    """
    configuring = Configuring(DocumentOperator(postern, {}))
    planned = await configuring.plan(document(programs), _without_secrets)
    if planned.problems:
        raise StartFailed(f"The demo cannot be set up: {planned.problems[0].message}")
    applied = await configuring.apply(planned)
    if applied.refused:
        raise StartFailed(f"The demo cannot be set up: {applied.refused[0].refusal.message}")
    partner = await for_owner(postern, PARTNER_SLUG)
    saml = postern.federation.saml
    await saml.fill(partner, WIKI, programs.wiki.description.encode(), acting())
    await saml.configure(partner, WIKI, ConfigurationChange(enabled=True), acting())
    if (await saml.get(partner, WIKI)).configured.active is None:
        await saml.make_certificate(partner, WIKI, acting(), activate=True)
    async with postern.foundation.unit_of_work() as uow:
        assistant = await uow.services.hold(made.organization.id, ASSISTANT)
    if assistant is None:
        raise StartFailed("The demo was deleted a moment ago: try again")
    programs.assistant.client_id = str(assistant.client_id)
    programs.wiki.metadata = f"{issuer}/saml/{PARTNER_SLUG}/{WIKI}/metadata"


def document(programs: Programs) -> Mapping[str, Any]:
    """The document leaves out what else the organizations have, so that stays as it is."""
    home = programs.assistant.home
    assistant = {
        "name": "Demo Assistant",
        "service_type": "web",
        "sign_in_policy": "members",
        "redirect_uris": [f"{home}/callback"],
        "post_logout_redirect_uris": [f"{home}/"],
    }
    tools = {"name": "Demo Tools", "admits": "all", "scopes": [{"name": SCOPE, "description": "Read your notes"}]}
    wiki = {"name": "Demo Wiki", "service_type": "web", "sign_in_policy": "members"}
    return {
        "postern": 1,
        "organizations": {
            SLUG: {"services": {ASSISTANT: assistant}, "resource_servers": {programs.tools.resource: tools}},
            PARTNER_SLUG: {"services": {WIKI: wiki}},
        },
    }


def _without_secrets(_steps: Sequence[str], value: Any) -> Secret | None:
    raise LookupError(value)

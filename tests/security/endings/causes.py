"""How each cause comes about: by the page, the endpoint, the directory or the provider that people have for it."""

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from adapters.postgres.upkeep.purging import PostgresDeletedOrganizations, PostgresDeletedServices
from core.domain.identity.endings import Cause
from tests.http.browsing import Tab, Tabs
from tests.http.client import Received
from tests.http.federation.resources.asking import ORDERS
from tests.http.federation.scim.directories import PATCH_OP, USERS
from tests.http.forgetting import finish_forgetting
from tests.http.people import BASE_URL
from tests.http.postbox import token_in
from tests.http.signing_in import PASSWORD
from tests.security.endings.world import ACME, GRACE, FullAccount

NEW: Final = "a fresh and lively password"


def done(answer: Received) -> None:
    assert answer.status in {200, 202, 204}, answer.body


async def _first_proof_inside(world: FullAccount, *, ticks: bool = False) -> None:
    """In another browser than the one in which everything was made."""
    tab = await world.opens_proof(world.remembered)
    tab = await tab.send(len(tab.page.forms) - 1, **ticked(tab, "stays", ticks=ticks))
    assert tab.status == 200, tab.page.text


def ticked(tab: Tab, name: str, *, ticks: bool) -> dict[str, list[str]]:
    """Everything that the page lists, or nothing."""
    listed = re.findall(rf'<input [^>]*name="{name}"[^>]*>', tab.shown.body.decode())
    values = [value for one in listed for value in re.findall(r' value="([^"]*)"', one)]
    assert values or not ticks
    return {name: values if ticks else []}


async def _first_proof_outside(world: FullAccount) -> None:
    token = token_in(await world.mailed("/api/auth/resend-verification"))
    answer = await world.client.get(f"/auth/verify-email?token={token}")
    assert answer.status in {200, 302, 303}, answer.body


async def _another_providers_word(world: FullAccount) -> None:
    fake = world.fakes["websuite"]
    fake.person = {"sub": "another", "email": GRACE, "email_verified": True, "hd": "corp.example"}
    tabs = Tabs(world.client)
    await world.goes(tabs, "websuite")
    assert await world.who(tabs) == world.user


async def _scim(world: FullAccount, path: str, value: Any) -> None:
    operations = [{"op": "replace", "path": path, "value": value}]
    done(await world.ask_scim("PATCH", f"{USERS}/{world.user}", {"schemas": [PATCH_OP], "Operations": operations}))


async def _hand_over(world: FullAccount) -> None:
    """No directory manages administrators, so whoever wants this takes the role first."""
    await _role_lost(world)
    await _scim(world, "userName", "successor@corp.example")


async def _forgotten_password(world: FullAccount, *, ticks: bool = False) -> None:
    tab = await Tabs(world.client).tab().open((await world.mailed("/api/auth/forgot-password")).removeprefix(BASE_URL))
    tab = await tab.send(new_password=NEW, repeated=NEW, **ticked(tab, "keep_keys", ticks=ticks))
    assert tab.status == 200, tab.page.text


async def _changed_password(world: FullAccount) -> None:
    done(await world.as_grace("POST", "/api/user/change-password", {"current_password": PASSWORD, "new_password": NEW}))


async def _locked(world: FullAccount) -> None:
    tab = await world.inside.tab().open("/ui/lock")
    tab = await tab.send(len(tab.page.forms) - 1)
    assert tab.status == 200, tab.page.text


async def _locked_out(world: FullAccount) -> None:
    """She holds the account herself, since she has an organization of her own."""
    done(await world.as_grace("POST", "/api/organizations", {"slug": "hers", "name": "Her own"}))
    answer = await world.request("POST", f"{ACME}/members/{world.user}/lock")
    done(answer)
    assert answer.json()["account_locked"] is False


async def _deactivated_by_directory(world: FullAccount) -> None:
    await _role_lost(world)
    await _scim(world, "active", False)


async def _shut_out(world: FullAccount) -> None:
    done(await world.request("DELETE", f"{ACME}/members/{world.user}/sessions"))


async def _deactivated_by_platform(world: FullAccount) -> None:
    done(await world.request("POST", f"/api/platform/users/{world.user}/deactivate", by=world.governor))


async def _left(world: FullAccount) -> None:
    """Only from a membership that others have made. One that the person has confirmed, other members end."""
    world.people.change("update memberships set own_since = null where user_id = %s", world.user)
    tab = await world.inside.tab().open("/ui/organizations/acme/membership")
    tab = await tab.send(len(tab.page.forms) - 1, answer="leave")
    assert tab.status == 200, tab.page.text
    assert not world.people.rows("select from memberships where user_id = %s", world.user), tab.page.text


async def _removed(world: FullAccount) -> None:
    done(await world.request("POST", f"{ACME}/members/{world.user}"))


async def _let_go(world: FullAccount) -> None:
    headers = [("x-api-key", world.given["house_key"])]
    done(await world.client.request("DELETE", f"/api/service/users/{world.user}", headers=headers))


async def _role_lost(world: FullAccount) -> None:
    done(await world.request("PATCH", f"{ACME}/members/{world.user}", {"role": "member"}))


async def _second_factor_removed(world: FullAccount) -> None:
    done(await world.as_grace("POST", "/api/auth/reauthenticate", {"code": world.given["backup_codes"][2]}))
    done(await world.as_grace("DELETE", "/api/user/mfa"))


async def _application_ended(world: FullAccount) -> None:
    for application in (world.shop, world.helper):
        done(await world.request("DELETE", f"{ACME}/services/{application.service.slug}"))
        await world.purge(PostgresDeletedServices(world.postern.foundation.pool), application.service.id)


async def _api_suspended(world: FullAccount) -> None:
    done(await world.request("DELETE", f"/api/platform/resource-servers/{world.orders}/approval", by=world.governor))


async def _api_ended(world: FullAccount) -> None:
    done(await world.request("DELETE", f"{ACME}/resource-servers/{world.orders}"))


async def _connection_off(world: FullAccount) -> None:
    done(await world.request("PATCH", f"{ACME}/upstream-providers/{world.provider}", {"enabled": False}))


async def _connection_ended(world: FullAccount) -> None:
    done(await world.request("DELETE", f"{ACME}/upstream-providers/{world.provider}"))


async def _organization_suspended(world: FullAccount) -> None:
    body = {"reason": "unpaid"}
    done(await world.request("POST", f"/api/platform/organizations/{world.acme.id}/suspend", body, by=world.governor))


async def _organization_ended(world: FullAccount) -> None:
    done(await world.request("DELETE", ACME))
    await world.purge(PostgresDeletedOrganizations(world.postern.foundation.pool), world.acme.id)


async def _consent_narrowed(world: FullAccount) -> None:
    for application in (world.shop, world.helper):
        scope = "openid email orders:read orders:write" if application is world.shop else "orders:read orders:write"
        tab = await world.inside.tab().open(world.address(application, ORDERS, scope=scope, prompt="consent"))
        assert tab.place.startswith("/ui/consent"), tab.page.text
        await tab.send(answer="allow", scopes=[f"{world.orders} orders:read"])


async def _consent_taken_back(world: FullAccount) -> None:
    for application in (world.shop, world.helper):
        tab = await world.inside.tab().open(f"/ui/applications/{application.service.id}/revoke")
        tab = await tab.send(len(tab.page.forms) - 1)
        assert tab.status == 200, tab.page.text


async def _account_deleted(world: FullAccount) -> None:
    done(await world.request("DELETE", f"/api/privacy/forget/{world.user}", by=world.governor))
    await finish_forgetting(world.postern, world.people)


Act = Callable[[FullAccount], Awaitable[None]]
ACTS: Final[Mapping[Cause, Act]] = {
    Cause.FIRST_PROOF_INSIDE: _first_proof_inside,
    Cause.FIRST_PROOF_OUTSIDE: _first_proof_outside,
    Cause.ANOTHER_PROVIDERS_WORD: _another_providers_word,
    Cause.HAND_OVER: _hand_over,
    Cause.FORGOTTEN_PASSWORD: _forgotten_password,
    Cause.CHANGED_PASSWORD: _changed_password,
    Cause.LOCKED: _locked,
    Cause.LOCKED_OUT_BY_ORGANIZATION: _locked_out,
    Cause.DEACTIVATED_BY_DIRECTORY: _deactivated_by_directory,
    Cause.SHUT_OUT_BY_ORGANIZATION: _shut_out,
    Cause.DEACTIVATED_BY_PLATFORM: _deactivated_by_platform,
    Cause.LEFT: _left,
    Cause.REMOVED: _removed,
    Cause.LET_GO: _let_go,
    Cause.ROLE_LOST: _role_lost,
    Cause.SECOND_FACTOR_REMOVED: _second_factor_removed,
    Cause.APPLICATION_ENDED: _application_ended,
    Cause.API_SUSPENDED: _api_suspended,
    Cause.API_ENDED: _api_ended,
    Cause.CONNECTION_OFF: _connection_off,
    Cause.CONNECTION_ENDED: _connection_ended,
    Cause.ORGANIZATION_SUSPENDED: _organization_suspended,
    Cause.ORGANIZATION_ENDED: _organization_ended,
    Cause.CONSENT_NARROWED: _consent_narrowed,
    Cause.CONSENT_TAKEN_BACK: _consent_taken_back,
    Cause.ACCOUNT_DELETED: _account_deleted,
}
# The same, with everything ticked.
TICKS: Final[Mapping[Cause, Act]] = {
    Cause.FIRST_PROOF_INSIDE: partial(_first_proof_inside, ticks=True),
    Cause.FORGOTTEN_PASSWORD: partial(_forgotten_password, ticks=True),
}
# Whose address nobody has proved yet.
VOUCHED: Final = frozenset({Cause.FIRST_PROOF_INSIDE, Cause.FIRST_PROOF_OUTSIDE, Cause.ANOTHER_PROVIDERS_WORD, Cause.HAND_OVER})

"""Every door through which tokens for a service leave, each led up to its last request. A rule that ought to stop the door is turned on in
between, so it must hold at the very moment at which the token would be given.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeVar
from uuid import uuid4

from core.domain.federation.oauth.grants import (
    AUTHORIZATION_CODE,
    CIBA,
    CLIENT_CREDENTIALS,
    DEVICE_CODE,
    JWT_BEARER,
    REFRESH_TOKEN,
    TOKEN_EXCHANGE,
)
from entrypoints.bootstrap import Postern
from ops.stand_ins.fake_providers import FakeProvider
from tests.authenticator import Passkey
from tests.conftest import CapturedLog
from tests.http.cast import Cast
from tests.http.client import Received
from tests.http.connections.asserting import Asserting
from tests.http.federation.backchannel.asking import Afar
from tests.http.federation.devices import Sets
from tests.http.federation.profiles.test_fapi2 import public
from tests.http.federation.proxied.behind_proxies import Proxied
from tests.http.federation.relying import Application, Relying
from tests.http.federation.resources.exchanging import Exchanging
from tests.http.federation.workloads.issuing import issuing
from tests.http.identity.test_passkeys import Owner
from tests.http.people import People, Person
from tests.http.signing_in import PASSWORD, Browser, enable_mfa, unlimited
from tests.http.tenants import UsedService
from tests.http.upstream.scene import ADA, Fakes, UpstreamScene

Knock = Callable[[], Awaitable[Received]]
S = TypeVar("S", bound=Cast)
TOKEN_ENDPOINT: Final = ("POST /oauth/token", "POST /auth/token")


@dataclass(frozen=True)
class Ready:
    """A door before its last request. Acme has the service."""

    scene: Cast
    service: UsedService
    knock: Knock


@dataclass
class Meeting:
    """Makes the scene that a door needs."""

    postern: Postern
    people: People
    log: CapturedLog
    fakes: Fakes
    stack: AsyncExitStack

    def scene(self, kind: type[S], **more: Any) -> S:
        return kind(self.postern, self.people, unlimited(self.postern), self.log, **more)


Lead = Callable[[Meeting], Awaitable[Ready]]


@dataclass(frozen=True)
class Door:
    lead: Lead
    endpoints: tuple[str, ...] = TOKEN_ENDPOINT
    grant: str | None = None
    signs: tuple[str, ...] = ()
    """Where its tokens are signed, as `module:function`."""


def _shop(scene: Relying) -> Application:
    """Ada is a member of acme, so that acme's rules are for her."""
    scene.tenants.join(scene.ada, scene.acme)
    return scene.shop


async def _code(meeting: Meeting) -> Ready:
    scene = meeting.scene(Relying)
    code = await scene.code(_shop(scene))
    return Ready(scene, scene.shop.service, lambda: scene.redeem(scene.shop, code))


async def _code_of_public_client(meeting: Meeting) -> Ready:
    scene = meeting.scene(Relying)
    _shop(scene)
    code = await scene.code(scene.page)
    return Ready(scene, scene.page.service, lambda: scene.redeem(scene.page, code))


async def _refresh(meeting: Meeting) -> Ready:
    scene = meeting.scene(Relying)
    tokens = await scene.signed_in(_shop(scene))
    return Ready(scene, scene.shop.service, lambda: scene.refresh(scene.shop, tokens["refresh_token"]))


async def _client_credentials(meeting: Meeting) -> Ready:
    scene = meeting.scene(Relying)
    shop = _shop(scene)
    return Ready(scene, shop.service, lambda: scene.ask(fields={"grant_type": CLIENT_CREDENTIALS, **shop.posted}))


async def _device(meeting: Meeting) -> Ready:
    scene = meeting.scene(Sets)
    _shop(scene)
    codes = await scene.ask_for_codes(scene.box)
    await scene.approve(codes)
    return Ready(scene, scene.box.service, lambda: scene.poll(codes))


async def _exchange(meeting: Meeting) -> Ready:
    scene = meeting.scene(Exchanging)
    _shop(scene)
    subject = await scene.subject()
    return Ready(scene, scene.desk.service, lambda: scene.exchange(scene.desk, subject))


async def _assertion(meeting: Meeting) -> Ready:
    directory = meeting.stack.enter_context(FakeProvider())
    scene = meeting.scene(Asserting).begin(directory)
    return Ready(scene, scene.shop.service, lambda: scene.bring(scene.assertion()))


async def _workload(meeting: Meeting) -> Ready:
    scene = meeting.scene(Relying)
    issuer = await meeting.stack.enter_async_context(issuing(scene))
    await issuer.trusted()
    return Ready(scene, scene.shop.service, lambda: issuer.asks(issuer.token()))


async def _afar(meeting: Meeting) -> Ready:
    scene = meeting.scene(Afar)
    await scene.turn("on")
    request = await scene.requested(scene.shop, scope="openid", resource=None)
    assert (await scene.allow()).status == 204
    return Ready(scene, scene.shop.service, lambda: scene.poll(request, scene.shop))


async def _login(meeting: Meeting) -> Ready:
    scene, browser = meeting.scene(Relying), Browser(unlimited(meeting.postern))
    ada = scene.tenants.join(await scene.people.with_password(PASSWORD), scene.acme)
    return Ready(scene, scene.shop.service, lambda: browser.login(ada, org_slug="acme", service_slug="shop"))


async def _second_factor(meeting: Meeting) -> Ready:
    """Of a sign-in to the service whose password was right."""
    scene, browser = meeting.scene(Relying), Browser(unlimited(meeting.postern))
    ada = scene.tenants.join(await scene.people.with_password(PASSWORD), scene.acme)
    totp = await enable_mfa(scene.client, scene.people, ada)
    waiting = await browser.tokens(ada, org_slug="acme", service_slug="shop")
    assert waiting["mfa_required"]
    meeting.log.remember(waiting["access_token"])
    return Ready(scene, scene.shop.service, lambda: browser.verify(waiting["access_token"], totp.now()))


async def _passkey(meeting: Meeting) -> Ready:
    scene = meeting.scene(Relying)
    owner = Owner(unlimited(meeting.postern), scene.people, meeting.postern, scene.people.session_of(scene.ada))
    scene.tenants.join(scene.ada, scene.acme)
    owner.token = await scene.people.token(owner.person)
    passkey, _ = await owner.add(Passkey.made())
    return Ready(scene, scene.shop.service, lambda: owner.sign_in(passkey, org_slug="acme", service_slug="shop"))


async def _own_refresh(meeting: Meeting) -> Ready:
    """Of a session in the service that a sign-in at our API has opened."""
    scene, browser = meeting.scene(Relying), Browser(unlimited(meeting.postern))
    ada = scene.tenants.join(await scene.people.with_password(PASSWORD), scene.acme)
    tokens = (await browser.login(ada, org_slug="acme", service_slug="shop")).ok()
    meeting.log.remember(tokens["refresh_token"], tokens["access_token"])
    return Ready(scene, scene.shop.service, lambda: browser.refresh(tokens["refresh_token"]))


async def _impersonation(meeting: Meeting) -> Ready:
    scene = meeting.scene(Relying)
    scene.tenants.uses(scene.tenants.join(scene.ada, scene.acme), scene.shop.service)
    boss = scene.people.add("boss@platform.example", platform_owner=True)
    body = {"reason": "Ticket 4711", "org_slug": "acme", "service_slug": "shop"}
    path = f"/api/platform/impersonate/{scene.ada.user}"
    return Ready(scene, scene.shop.service, lambda: scene.request("POST", path, body, by=scene.people.session_of(boss)))


async def _fragment(meeting: Meeting) -> Ready:
    """An application's own page leads straight to a provider, and gets the tokens behind the `#`. The person is at the provider."""
    scene = meeting.scene(UpstreamScene, fakes=meeting.fakes)
    fake, tabs = scene.sits(), scene.browser()
    scene.tenants.join(scene.verified(), scene.acme)
    scene.people.connect(_person(scene), "websuite", fake.issuer, fake.person["sub"])
    scene.allow(_person(scene))
    there = await scene.leave(tabs, scene.direct(code_challenge="", code_challenge_method=""))
    return Ready(scene, scene.app, lambda: tabs.request("GET", fake.consent(there)))


def _person(scene: UpstreamScene) -> Any:
    (row,) = scene.people.rows("select id from users where email = %s", ADA)
    return _Known(row["id"])


@dataclass(frozen=True)
class _Known:
    user: Any
    email: str = ADA


async def _proxy(meeting: Meeting) -> Ready:
    scene = meeting.scene(Proxied)
    secret = await scene.wiki()
    cookie = await scene.cookie_of(secret, scene.ada)
    return Ready(scene, scene.service, lambda: scene.ask(secret, cookie=cookie))


_GRANTS: Final = "core/usecases/federation/grants.py"
_SESSIONS: Final = "core/usecases/identity/sessions.py:tokens"
_ISSUE: Final = (f"{_GRANTS}:issue", _SESSIONS)
_SIGN_IN: Final = ("core/usecases/identity/sign_in/sign_in_results.py:_signed_in", _SESSIONS)

DOORS: Final[Mapping[str, Door]] = {
    "a code": Door(_code, grant=AUTHORIZATION_CODE, signs=_ISSUE),
    "a code of a public client": Door(_code_of_public_client, grant=AUTHORIZATION_CODE, signs=_ISSUE),
    "a refresh token": Door(_refresh, grant=REFRESH_TOKEN, signs=_ISSUE),
    "the client's credentials": Door(_client_credentials, grant=CLIENT_CREDENTIALS, signs=(f"{_GRANTS}:of_client",)),
    "a device": Door(_device, grant=DEVICE_CODE, signs=_ISSUE),
    "an exchange": Door(_exchange, grant=TOKEN_EXCHANGE, signs=("core/usecases/federation/grants.py:_issued",)),
    "an identity assertion": Door(_assertion, grant=JWT_BEARER, signs=("core/usecases/federation/identity_assertions.py:_issued",)),
    "a workload": Door(_workload, grant=JWT_BEARER, signs=(f"{_GRANTS}:of_client",)),
    "a yes from afar": Door(_afar, grant=CIBA, signs=_ISSUE),
    "a password": Door(_login, ("POST /api/auth/login",), signs=_SIGN_IN),
    "a second factor": Door(_second_factor, ("POST /api/auth/mfa/verify",), signs=_SIGN_IN),
    "a passkey": Door(_passkey, ("POST /api/auth/passkeys",), signs=_SIGN_IN),
    "our own refresh": Door(_own_refresh, ("POST /api/auth/refresh",), signs=("core/usecases/identity/sessions.py:refresh", _SESSIONS)),
    "an impersonation": Door(
        _impersonation, ("POST /api/platform/impersonate/{user_id}",), signs=("core/usecases/identity/impersonation.py:begin", _SESSIONS)
    ),
    "a fragment": Door(
        _fragment, ("GET /auth/{provider}/callback",), signs=("core/usecases/federation/authorization_codes.py:with_tokens", _SESSIONS)
    ),
    "a proxy": Door(_proxy, ("GET /proxy/check",), signs=("adapters/crypto/tokens.py:signed",)),
}


async def _bound(ready: Ready, owner: Person) -> None:
    (await _set(ready, owner, dpop_bound_access_tokens=True)).ok()


async def _fapi2(ready: Ready, owner: Person) -> None:
    (await _set(ready, owner, jwks=public("ES256"), profile="fapi2")).ok()


async def _owed_factor(ready: Ready, owner: Person) -> None:
    """The owner has a second factor, as everybody does who asks others for one."""
    ready.scene.people.give_passkey(owner, second_factor=True)
    ready.scene.people.change("update sessions set second_factor_at = now() where id = %s", owner.session)
    rules = {"mfa_policy": "required", "mfa_grace_days": 0}
    (await ready.scene.request("PATCH", "/api/organizations/acme/sign-in-rules", rules, by=owner)).ok()


async def _owed_terms(ready: Ready, owner: Person) -> None:
    """The date is over: only the clock brings that about."""
    in_time = (ready.scene.postern.foundation.clock.now() + timedelta(days=7)).isoformat()
    body = {"version": "1", "address": "https://acme.example/terms", "due_at": in_time}
    (await ready.scene.request("PUT", "/api/organizations/acme/terms", body, by=owner)).ok()
    ready.scene.people.change("update terms set due_at = now() - interval '1 second'")


async def _risk(ready: Ready, owner: Person) -> None:
    """A rule that refuses everybody at the service. It counts once it was saved in shadow."""
    rule = {"id": str(uuid4()), "name": "Nobody", "when": {"services": [str(ready.service.id)]}, "action": "refuse"}
    for counts in (False, True):
        body = {"policies": [{**rule, "counts": counts}]}
        (await ready.scene.request("PUT", "/api/organizations/acme/risk-policies", body, by=owner)).ok()


async def _hooks(ready: Ready, owner: Person) -> None:
    """A hook that counts and gives no answer, which refuses, and that has said no of every session that there is."""
    counts_as, people = uuid4(), ready.scene.people
    organization = ready.service.tenant.id
    people.change(
        "insert into hooks (id, org_id, point, address, silence, seconds, sealed_secret, secret_made_at, counts_as, since, created_at,"
        " updated_at) values (%s, %s, 'sign_in', 'http://127.0.0.1:1/hook', 'refuse', 1, 'x', now(), %s, now(), now(), now())",
        uuid4(),
        organization,
        counts_as,
    )
    people.change(
        "update sessions set hook_verdicts = jsonb_build_object(%s::text, jsonb_build_object('at', extract(epoch from now()), 'no', true))"
        " where user_id <> %s",
        f"{counts_as}/{organization}",
        owner.user,
    )


async def _set(ready: Ready, owner: Person, **settings: Any) -> Received:
    return await ready.scene.request("PATCH", f"/api/organizations/acme/services/{ready.service.slug}", settings, by=owner)


RULES: Final[Mapping[str, Callable[[Ready, Person], Awaitable[None]]]] = {
    "bound tokens": _bound,
    "FAPI 2.0": _fapi2,
    "second factor": _owed_factor,
    "terms": _owed_terms,
    "risk": _risk,
    "hooks": _hooks,
}
"""The columns: what an owner of the service's organization turns on so that the door gives nothing more."""

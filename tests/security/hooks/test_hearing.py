"""What a hook hears of a person: exactly what the application at the door learns, and nothing that it does not."""

import json
from typing import Any, Final
from urllib.parse import urlencode

from adapters.postgres.backups.restored import OutgoingWork, hold, release
from core.domain.record.events import Actor
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.federation.arriving import CALLBACK, VERIFIER, Arriving, answer_in
from tests.http.federation.devices import Sets
from tests.http.federation.providing import Providing, asking, authn_request, sent
from tests.http.federation.relying import FORM, TOKEN, USERINFO, claims_of
from tests.http.people import People, Person
from tests.http.signing_in import PASSWORD, Browser, unlimited
from tests.http.tenants import UsedService
from tests.security.hooks.hooked import Hooks

EVERYTHING: Final = "openid email profile organization roles groups"
OF_TOKEN: Final = {"iss", "aud", "exp", "iat", "sid", "amr", "acr", "at_hash", "auth_time", "nonce"}


def named(people: People, person: Person) -> None:
    people.change(
        "update users set name = 'Grace Hopper', given_name = 'Grace', family_name = 'Hopper', zoneinfo = 'Europe/Berlin' where id = %s",
        person.user,
    )


def tells(people: People, service: UsedService, name: str, value: str, *places: str) -> None:
    people.change(
        "insert into service_claims (id, service_id, name, source, argument, told_in, created_at)"
        " values (gen_random_uuid(), %s, %s, 'constant', %s::jsonb, %s, now())",
        service.id,
        name,
        json.dumps(value),
        list(places),
    )


async def learned(arriving: Arriving, person: Person, scopes: str) -> dict[str, Any]:
    """What the application has of the person in the end: by the ID token, and by userinfo."""
    tab = await arriving.signed_in(arriving.people.session_of(person)).tab().open(arriving.asking(scope=scopes))
    code = answer_in(tab.shown.header("location"))["code"]
    fields = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, "code_verifier": VERIFIER}
    body = urlencode({**fields, "client_id": arriving.client_id(arriving.app)}).encode()
    tokens = (await arriving.unlimited.request("POST", TOKEN, body=body, headers=[FORM])).ok()
    arriving.log.remember(*(tokens[name] for name in ("access_token", "refresh_token", "id_token") if name in tokens))
    of_id_token = {name: value for name, value in claims_of(tokens["id_token"]).items() if name not in OF_TOKEN}
    return {**of_id_token, **(await arriving.unlimited.get(USERINFO, token=tokens["access_token"])).ok()}


async def test_it_hears_what_userinfo_and_the_id_token_say(arriving: Arriving, hooks: Hooks) -> None:
    people = arriving.people
    grace = arriving.tenants.join(people.proved("grace@acme.example"), arriving.acme, "admin")
    named(people, grace)
    tells(people, arriving.app, "tier", "gold", "userinfo")
    tells(people, arriving.app, "desk", "seven", "id_token")
    tells(people, arriving.app, "hidden", "never", "access_token")
    arriving.allow(grace, scopes=EVERYTHING)
    async with hooks.of(arriving.acme) as hooked:
        everything = await learned(arriving, grace, EVERYTHING)
        least = await learned(arriving, grace, "openid")
        assert [one["user"] for one in hooked.heard] == [everything, least]
        kept = [one.sent for one in await hooked.exchanges()]
    assert (everything["name"], everything["organization"]["role"], everything["tier"]) == ("Grace Hopper", "admin", "gold")
    assert everything["groups"] == ["acme/admin"]
    # Name and address are by scopes; what the service has configured of itself is not.
    assert set(least) == {"sub", "tier", "desk"}
    assert not [text for text in ("Grace", "gold", "seven", grace.email) if text in "".join(kept)]


async def test_it_hears_nothing_of_a_profile_where_no_application_is_named(arriving: Arriving, hooks: Hooks) -> None:
    grace = arriving.tenants.join(arriving.people.proved("grace@acme.example"), arriving.acme)
    named(arriving.people, grace)
    async with hooks.of(arriving.acme) as hooked:
        assert (await arriving.request("POST", "/api/organizations/acme/select", by=grace)).status == 200
    assert [one["user"] for one in hooked.heard] == [{"sub": str(grace.user)}]


async def test_it_hears_what_the_access_token_of_a_login_says(arriving: Arriving, hooks: Hooks) -> None:
    """No scopes are asked for there, so there are neither names nor what userinfo alone has."""
    grace = arriving.tenants.join(await arriving.people.with_password(PASSWORD, "grace@acme.example"), arriving.acme)
    named(arriving.people, grace)
    tells(arriving.people, arriving.app, "tier", "gold", "access_token")
    tells(arriving.people, arriving.app, "desk", "seven", "userinfo")
    async with hooks.of(arriving.acme) as hooked:
        tokens = (await Browser(arriving.unlimited).login(grace, org_slug="acme", service_slug="app")).ok()
        arriving.log.remember(tokens["access_token"], tokens["refresh_token"])
    (asked,) = hooked.heard
    assert asked["user"] == {"sub": str(grace.user), "email": grace.email, "tier": "gold"}
    got = claims_of(tokens["access_token"])
    assert {name: got[name] for name in asked["user"]} == asked["user"]
    assert asked["application"] == {"client_id": arriving.client_id(arriving.app), "slug": "app", "name": asked["application"]["name"]}


async def test_it_hears_what_a_device_asks_for(postern: Postern, people: People, log: CapturedLog, hooks: Hooks) -> None:
    scene = Sets(postern, people, unlimited(postern), log)
    scene.tenants.join(scene.ada, scene.acme)
    named(people, scene.ada)
    async with hooks.of(scene.acme) as hooked:
        await scene.approve(await scene.ask_for_codes(scene.box, scope="openid profile"))
    (asked,) = hooked.heard
    assert (asked["user"]["name"], "email" in asked["user"], asked["scopes"]) == ("Grace Hopper", False, ["openid", "profile"])


async def test_it_hears_what_an_assertion_says(postern: Postern, people: People, log: CapturedLog, hooks: Hooks) -> None:
    provider = Providing(postern, people, unlimited(postern), log)
    await provider.ready(attribute_mapping={"email": "mail", "name": "cn", "role": "rank"})
    grace = provider.tenants.join(people.proved("grace@acme.example"), provider.acme, "admin")
    named(people, grace)
    async with hooks.of(provider.acme) as hooked:
        got = sent(await provider.signed_in(grace, age=120).request("GET", asking(authn_request(ID="_one"))))
    (asked,) = hooked.heard
    assert got.attributes == {"mail": [grace.email], "cn": ["Grace Hopper"], "rank": ["admin"]}
    assert asked["user"] == {"sub": str(grace.user), "email": grace.email, "attributes": got.attributes}


async def test_while_work_is_held_only_hooks_that_count_hear(arriving: Arriving, hooks: Hooks, database_url: str) -> None:
    """In a restored copy, real people sign in, and the secret is production's."""
    grace = arriving.tenants.join(arriving.people.proved("grace@acme.example"), arriving.acme)

    async def selects() -> None:
        assert (await arriving.request("POST", "/api/organizations/acme/select", by=grace)).status == 200

    async with hooks.of(arriving.acme, counts=False) as own, hooks.of(None) as installation:
        await hold(database_url, [OutgoingWork.HOOKS])
        await selects()
        assert (len(own.heard), len(installation.heard)) == (0, 1)
        report = await arriving.postern.foundation.stores.hooks.report(installation.hook.id)
        assert report.asked == 1
        # Put into report-only mode in the copy, a hook is not asked any more.
        await arriving.postern.tenancy.hooks.put_in_shadow(None, Actor(operator="ops"))
        await selects()
        assert (len(own.heard), len(installation.heard)) == (0, 1)
        await release(database_url, [OutgoingWork.HOOKS])
        await selects()
        await own.receiver.until(1)
        await installation.receiver.until(2)

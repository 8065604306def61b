"""Signing in through a directory by SAML."""

from typing import Final
from urllib.parse import urlencode
from uuid import UUID

import jwt
import pytest

from core.domain.identity.sessions import ONE_FACTOR, TWO_FACTORS
from core.domain.identity.upstream.sign_in import ProviderAway
from tests.http.browsing import Tabs
from tests.http.client import refused
from tests.http.connections.scene import PATH, ConnectionScene
from tests.http.federation.arriving import CALLBACK, VERIFIER, answer_in
from tests.http.people import BASE_URL
from tests.http.routing import route
from tests.http.signing_in import LOGIN, PASSWORD
from tests.http.tenants import UsedService
from tests.http.upstream.scene import ADA

FALLBACK: Final = "password_fallback_if_provider_unavailable"
REFEDS: Final = "https://refeds.org/profile/mfa"


async def test_a_person_signs_in_through_a_tested_and_active_directory(scene: ConnectionScene) -> None:
    provider = await scene.active()
    ada = scene.verified()
    tabs = scene.browser()
    answer = await scene.arrive(tabs, provider)
    assert answer.status == 303, answer.body
    assert await scene.who(tabs) == ada.user
    told = [(one["provider"], one["issuer"], one["subject"], one["email"]) for one in scene.identities()]
    assert told == [(provider, scene.directory.issuer, "p-1", ADA)]
    # The next time, the name alone decides.
    scene.directory.email = "ada.lovelace@example.org"
    again = scene.browser()
    await scene.arrive(again, provider)
    assert await scene.who(again) == ada.user


async def test_a_draft_serves_its_test_alone(scene: ConnectionScene) -> None:
    provider = await scene.draft()
    record = next(one for one in (await scene.request("GET", PATH)).json() if one["id"] == provider)
    assert (record["kind"], record["state"], record["enabled"], record["issuer"]) == ("saml", "draft", False, scene.directory.issuer)
    assert record["saml"]["acs_url"] == f"{BASE_URL}/saml/sp/{provider}/acs"
    assert (await scene.browser().request("GET", f"/auth/{provider}?org=acme")).status == 400
    page = await scene.test(provider)
    assert b"All checks passed" in page.body, page.body
    assert scene.people.rows("select from identities") == []
    record = next(one for one in (await scene.request("GET", PATH)).json() if one["id"] == provider)
    assert (record["state"], record["enabled"]) == ("tested", False)


async def acr(scene: ConnectionScene, tabs: Tabs, service: UsedService) -> tuple[str, str]:
    """The `acr` of the ID token and of the next one, for a person who is signed in in this browser."""
    answer = await tabs.request("GET", scene.asking(service, scope="openid email offline_access"))
    code = answer_in(answer.header("location"))["code"]
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": CALLBACK,
        "client_id": scene.client_id(service),
        "code_verifier": VERIFIER,
    }
    headers = [("content-type", "application/x-www-form-urlencoded")]
    told = (await scene.client.request("POST", "/oauth/token", body=urlencode(form).encode(), headers=headers)).ok()
    claims = (jwt.decode(told[name], options={"verify_signature": False}) for name in ("id_token", "access_token"))
    first, second = (str(one["acr"]) for one in claims)
    return first, second


async def test_the_directorys_context_counts_in_the_services_of_its_organization_alone(scene: ConnectionScene) -> None:
    """It is asked for where the application asks for it, and never counts as our second factor."""
    provider = await scene.active()
    ada = scene.verified()
    scene.directory.context = REFEDS
    tabs = scene.browser()
    flow = (await tabs.tab().open(scene.asking(acr_values=f"{REFEDS} {TWO_FACTORS}"))).place.partition("flow=")[2]
    location = await scene.leave(tabs, f"?flow={flow}", word=provider)
    assert scene.directory.asked(location).contexts == [REFEDS]
    tabs = scene.browser()
    await scene.arrive(tabs, provider)
    globex = scene.tenants.add("globex")
    theirs = scene.application(globex, "theirs", CALLBACK)
    for service in (scene.app, theirs):
        scene.allow(ada, service, "openid email offline_access")
    assert await acr(scene, tabs, scene.app) == (REFEDS, REFEDS)
    assert await acr(scene, tabs, theirs) == (ONE_FACTOR, ONE_FACTOR)
    assert scene.people.rows("select from sessions where second_factor_at is not null") == []


async def test_a_directory_that_states_our_own_context_states_nothing(scene: ConnectionScene) -> None:
    """Services take this word for a second factor that we have checked."""
    provider = await scene.active()
    ada = scene.verified()
    scene.directory.context = TWO_FACTORS
    tabs = scene.browser()
    await scene.arrive(tabs, provider)
    scene.allow(ada, scene.app, "openid email offline_access")
    assert await acr(scene, tabs, scene.app) == (ONE_FACTOR, ONE_FACTOR)


async def test_a_directory_counts_as_there_where_passwords_fall_back(scene: ConnectionScene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody asks a directory by SAML whether it answers, so a password stays closed until an outage is noted otherwise."""

    async def away(*_site: object, **_how: object) -> None:
        raise ProviderAway

    monkeypatch.setattr(scene.postern.foundation.upstreams, "look", away)
    provider = await scene.active(domain="")
    await scene.people.with_password(PASSWORD, ADA)
    route(scene.people, scene.acme, "example.org", provider=None, own=UUID(provider), login=FALLBACK)
    login = {"email": ADA, "password": PASSWORD}
    assert (await scene.unlimited.post("/api/auth/lookup-email", {"email": ADA})).ok()["auth_method"] == "upstream"
    assert refused(await scene.unlimited.post(LOGIN, login)) == (403, "FORBIDDEN")
    assert scene.people.rows("select from provider_outages") == []
    scene.people.change("insert into provider_outages (provider, failed_at) values (%s, now())", provider)
    assert (await scene.unlimited.post(LOGIN, login)).status == 200

"""The round trips of a sign-in through a directory by SAML."""

from tests.http.connections.scene import PATH, ConnectionScene, place_of


async def test_each_step_takes_as_few_round_trips_as_can_be(scene: ConnectionScene) -> None:
    provider = await scene.active()

    def trips(route: str) -> int:
        line = scene.log.events("request")[-1]
        assert line["route"] == route
        return int(line["db_round_trips"])

    await scene.arrive(scene.browser(), provider)
    tabs = scene.browser()
    location = await scene.leave(tabs, "?org=acme", word=provider)
    assert trips("/auth/{provider}") == 2
    back = await scene.post_answer(provider, scene.directory.answer(location))
    assert trips("/saml/sp/{connection_id}/acs") == 2
    assert (await tabs.request("GET", place_of(back))).status == 303
    # One more than after OpenID Connect: the answer that waits.
    assert trips("/auth/{provider}/callback") == 5
    await scene.unlimited.request("GET", f"/saml/sp/{provider}")
    assert trips("/saml/sp/{connection_id}") == 1
    (await scene.request("GET", f"{PATH}/{provider}/exchanges")).ok()
    assert trips("/api/organizations/{org_slug}/upstream-providers/{provider_id}/exchanges") == 2
    (await scene.request("POST", f"{PATH}/{provider}/test")).ok()
    assert trips("/api/organizations/{org_slug}/upstream-providers/{provider_id}/test") <= 6
    (await scene.activate(provider)).ok()
    assert trips("/api/organizations/{org_slug}/upstream-providers/{provider_id}/activate") <= 7

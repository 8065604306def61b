"""What a directory, a browser or an administrator sends that no connection takes, and what comes a second time."""

from typing import Any
from uuid import uuid4

import pytest

from core.domain.errors import BadRequest
from core.domain.saml import LONGEST_METADATA
from core.frozen import replace
from ops.browser.page_reader import PageReader
from ops.stand_ins.fake_directory import SLO, SSO
from ops.stand_ins.saml import pair
from ports.outbound import NO_HEADERS, Failure, OutboundAnswer, OutboundFailed
from tests.http.browsing import Tabs
from tests.http.client import refused
from tests.http.connections.refreshing import ADDRESS, Answer, FakeOutbound
from tests.http.connections.scene import PATH, XML, ConnectionScene, place_of
from tests.http.connections.test_sign_outs import request
from tests.http.people import BASE_URL
from tests.meanwhile import meanwhile


async def newest(scene: ConnectionScene, provider: str) -> dict[str, Any]:
    await scene.keep_recorded()
    found: dict[str, Any] = (await scene.request("GET", f"{PATH}/{provider}/exchanges")).ok()["exchanges"][0]
    return found


class TestSignOuts:
    async def test_nobody_else_may_ask(self, scene: ConnectionScene) -> None:
        provider = await scene.active()
        ada, tabs = scene.verified(), scene.browser()
        await scene.arrive(tabs, provider)
        asked = request(scene, provider)
        unsigned = asked.partition("&SigAlg=")[0]
        elsewhere = request(scene, str(uuid4())).replace(asked.partition("?")[0].rpartition("/slo")[0], "")
        for wrong, told in (
            (unsigned, "not signed"),
            (f"/saml/sp/{provider}/slo?{elsewhere.partition('?')[2]}", "Destination"),
        ):
            assert (await scene.browser().request("GET", wrong)).status == 400
            assert told in (await newest(scene, provider))["reason"]
            assert await scene.who(tabs) == ada.user
        assert (await scene.browser().request("GET", f"/saml/sp/{uuid4()}/slo?{asked.partition('?')[2]}")).status == 404

    async def test_a_session_that_has_ended_ends_once(self, scene: ConnectionScene) -> None:
        provider = await scene.active()
        scene.verified()
        tabs = scene.browser()
        await scene.arrive(tabs, provider)
        for _ in range(2):
            assert (await scene.browser().request("GET", request(scene, provider))).status == 302
        assert len(scene.people.rows("select from sessions where revoked_at is not null")) == 1

    async def test_a_directory_gets_its_answer_where_and_how_it_wants_it_or_none(self, scene: ConnectionScene) -> None:
        post = scene.directory.metadata().replace(
            'SingleLogoutService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect"',
            'SingleLogoutService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST"',
        )
        provider = await scene.active()
        (await scene.fill(provider, post)).ok()
        await scene.test(provider)
        (await scene.activate(provider)).ok()
        answer = await scene.browser().request("GET", request(scene, provider))
        (form,) = PageReader(answer.body).forms
        assert (form.action, form.fields["RelayState"]) == (SLO, "r")
        assert form.fields["SAMLResponse"]
        # The answer brings back what the request brought, and nothing where it brought nothing.
        answer = await scene.browser().request("GET", request(scene, provider, relay_state=None))
        (form,) = PageReader(answer.body).forms
        assert (form.action, [*form.fields]) == (SLO, ["SAMLResponse"])
        (await scene.request("PATCH", f"{PATH}/{provider}", {"slo_url": "", "slo_response_url": ""})).ok()
        await scene.test(provider)
        (await scene.activate(provider)).ok()
        answer = await scene.browser().request("GET", request(scene, provider))
        assert answer.status == 200
        assert SLO.encode() not in answer.body


class TestAnswers:
    async def test_an_answer_to_nobody_is_404_and_one_that_comes_twice_counts_once(self, scene: ConnectionScene) -> None:
        provider = await scene.active()
        ada, tabs = scene.verified(), scene.browser()
        fields = scene.directory.answer(await scene.leave(tabs, "?org=acme", word=provider))
        assert (await scene.post_answer(str(uuid4()), fields)).status == 404
        taken = await scene.post_answer(provider, fields)
        await tabs.request("GET", place_of(taken))
        assert await scene.who(tabs) == ada.user
        assert "code=" not in place_of(await scene.post_answer(provider, fields))

    async def test_a_connection_that_wants_encrypted_assertions_takes_no_other(self, scene: ConnectionScene) -> None:
        provider = await scene.draft(wants_encrypted=True)
        page = await scene.test(provider)
        assert b"All checks passed" not in page.body
        assert "not encrypted" in (await newest(scene, provider))["reason"]

    async def test_a_person_needs_a_name_that_can_be_kept(self, scene: ConnectionScene) -> None:
        scene.directory.more = {"uid": "p-1"}
        provider = await scene.active(subject_source="uid")
        scene.directory.more = {"uid": "x" * 256}
        tabs = scene.browser()
        await scene.arrive(tabs, provider)
        assert await scene.who(tabs) is None
        assert scene.identities() == []


class TestMetadata:
    async def test_it_comes_from_the_document_or_from_the_address(self, scene: ConnectionScene) -> None:
        provider = await scene.draft()
        token = await scene.tenants.token(scene.speaker)
        path = f"{PATH}/{provider}/metadata?url={ADDRESS}"
        assert refused(await scene.client.request("POST", path, body=b"<x/>", token=token, headers=XML)) == (400, "BAD_REQUEST")

    @pytest.mark.parametrize(
        "page", [OutboundAnswer(404, NO_HEADERS, b""), OutboundFailed(Failure.UNREACHABLE), b"x" * (LONGEST_METADATA + 1)]
    )
    async def test_an_address_has_to_lead_to_metadata(self, scene: ConnectionScene, page: Answer) -> None:
        outbound = FakeOutbound({ADDRESS: page})
        with pytest.raises(BadRequest):
            await replace(scene.postern.tenancy.connections, outbound=outbound).fetch(ADDRESS)
        outbound.pages[ADDRESS] = b"<x/>"
        assert await replace(scene.postern.tenancy.connections, outbound=outbound).fetch(ADDRESS) == b"<x/>"

    async def test_the_same_again_changes_nothing(self, scene: ConnectionScene) -> None:
        provider = await scene.active()
        before = (await scene.fill(provider)).ok()
        assert (await scene.fill(provider)).ok() == before
        added = {"certificate": scene.directory.certificate}
        again = (await scene.request("POST", f"{PATH}/{provider}/certificate", added)).ok()
        assert len(again["saml"]["certificates"]) == 1
        assert again["state"] == before["state"] == "active"

    async def test_a_directory_must_take_redirects(self, scene: ConnectionScene) -> None:
        provider = await scene.draft()
        post = scene.directory.metadata().replace(
            f'SingleSignOnService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect" Location="{SSO}"',
            f'SingleSignOnService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST" Location="{SSO}"',
        )
        assert refused(await scene.fill(provider, post)) == (400, "BAD_REQUEST")


class TestTestsOfOpenIdConnect:
    """What the page of a test says when the provider does not do its part."""

    async def begun(self, scene: ConnectionScene, provider: str, tabs: Tabs) -> tuple[str, str]:
        place = (await scene.request("POST", f"{PATH}/{provider}/test")).ok()["url"].removeprefix(BASE_URL)
        return place, await scene.begin_test(tabs, await tabs.request("GET", place))

    async def test_each_failure_is_told(self, scene: ConnectionScene) -> None:
        provider = await scene.own_provider(domain="")
        fake = scene.sits(word="own")
        for name in ("an error", "no code", "another audience", "away"):
            tabs = scene.browser()
            place, location = await self.begun(scene, provider, tabs)
            back = fake.consent(location)
            if name == "an error":
                back = back.replace("code=", "error=access_denied&was=")
            if name == "no code":
                back = back.replace("code=", "was=")
            fake.wrong, fake.fails = ({"aud": "somebody-else"} if name == "another audience" else {}), name == "away"
            answer = await tabs.request("GET", back)
            assert (answer.status, answer.header("location")) == (303, f"{BASE_URL}{place}"), name
            told = PageReader((await tabs.request("GET", place)).body).text
            assert "All checks passed" not in told, name
            # The same answer again changes nothing.
            assert (await tabs.request("GET", back)).status == 303
            fake.wrong, fake.fails = {}, False
        assert scene.identities() == []

    async def test_a_provider_that_is_away_is_told_at_once(self, scene: ConnectionScene) -> None:
        provider = await scene.own_provider(domain="")
        # Nobody has asked for this issuer's metadata, and nobody answers there.
        scene.people.change("update upstream_providers set issuer = 'https://away.acme.example' where id = %s", provider)
        tabs = scene.browser()
        place = (await scene.request("POST", f"{PATH}/{provider}/test")).ok()["url"].removeprefix(BASE_URL)
        form = PageReader((await tabs.request("GET", place)).body).forms[0]
        await tabs.request("POST", form.action, form.fields)
        assert "can reach" in PageReader((await tabs.request("GET", place)).body).text
        # Another browser's test is nobody else's.
        assert "can reach" not in PageReader((await scene.browser().request("GET", place)).body).text

    async def test_a_test_that_is_over_stays_over(self, scene: ConnectionScene) -> None:
        provider = await scene.own_provider(domain="")
        fake = scene.sits(word="own")
        tabs = scene.browser()
        place, location = await self.begun(scene, provider, tabs)
        back = fake.consent(location)
        scene.people.change("delete from connection_tests")
        assert (await tabs.request("GET", back)).status == 400
        assert (await tabs.request("GET", place)).status == 400

    async def test_a_test_whose_starter_has_signed_out_asks_the_provider_nothing(self, scene: ConnectionScene) -> None:
        provider = await scene.own_provider(domain="")
        scene.people.change("update upstream_providers set state = 'draft', enabled = false where id = %s", provider)
        fake = scene.sits(word="own")
        tabs = scene.browser()
        place, location = await self.begun(scene, provider, tabs)
        back = fake.consent(location)
        (await scene.request("POST", "/api/auth/logout")).ok()
        answer = await tabs.request("GET", back)
        assert (answer.status, answer.header("location")) == (303, f"{BASE_URL}{place}")
        assert [row["sealed_result"] for row in scene.people.rows("select sealed_result from connection_tests")] == [None]
        assert [row["state"] for row in scene.people.rows("select state from upstream_providers")] == ["draft"]

    @pytest.mark.parametrize(
        "change",
        [
            "update all_organizations set deleted_at = now() where slug = 'acme'",
            "update connection_tests set finished_at = now(), succeeded = false",
            "delete from upstream_providers",
        ],
        ids=["a deleted organization", "a test that was finished", "a deleted provider"],
    )
    async def test_what_ends_while_the_provider_is_asked_gets_no_result(
        self, scene: ConnectionScene, change: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The answer is right, and would make the draft a tested one."""
        provider = await scene.own_provider(domain="")
        scene.people.change("update upstream_providers set state = 'draft', enabled = false where id = %s", provider)
        fake = scene.sits(word="own")
        tabs = scene.browser()
        _, location = await self.begun(scene, provider, tabs)
        meanwhile(monkeypatch, scene.postern.tenancy.connection_tests.lookup, "directory", lambda: scene.people.change(change))
        assert (await tabs.request("GET", fake.consent(location))).status == 303
        assert [row["sealed_result"] for row in scene.people.rows("select sealed_result from connection_tests")] in ([None], [])
        assert [row["state"] for row in scene.people.rows("select state from upstream_providers")] in (["draft"], [])
        assert scene.audited("organization.upstream_provider.tested") == []
        await scene.keep_recorded()
        assert scene.people.rows("select from connection_exchanges") == []


async def test_a_test_whose_starter_has_lost_the_right_takes_no_answer(scene: ConnectionScene) -> None:
    provider = await scene.draft()
    tabs = scene.browser()
    starter = scene.resident(scene.acme, "admin")
    place = (await scene.request("POST", f"{PATH}/{provider}/test", by=starter)).ok()["url"].removeprefix(BASE_URL)
    location = await scene.begin_test(tabs, await tabs.request("GET", place))
    (await scene.request("PATCH", f"/api/organizations/acme/members/{starter.user}", {"role": "member"})).ok()
    assert place_of(await scene.post_answer(provider, scene.directory.answer(location))) == place
    assert (await scene.record(provider))["state"] == "draft"
    assert scene.audited("organization.upstream_provider.tested") == []


async def test_an_organization_that_goes_while_an_answer_is_read_gets_no_result(
    scene: ConnectionScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = await scene.draft()
    tabs = scene.browser()
    place = (await scene.request("POST", f"{PATH}/{provider}/test")).ok()["url"].removeprefix(BASE_URL)
    location = await scene.begin_test(tabs, await tabs.request("GET", place))
    gone = "update all_organizations set deleted_at = now() where slug = 'acme'"
    meanwhile(monkeypatch, scene.postern.tenancy.connection_tests.starters, "may_go_on", lambda: scene.people.change(gone))
    await scene.post_answer(provider, scene.directory.answer(location))
    assert [row["sealed_result"] for row in scene.people.rows("select sealed_result from connection_tests")] == [None]


async def test_a_test_that_is_replaced_meanwhile_takes_no_answer(scene: ConnectionScene, monkeypatch: pytest.MonkeyPatch) -> None:
    """An administrator begins another test, which ends this one, while the directory's answer is read."""
    provider = await scene.draft()
    tabs = scene.browser()
    place = (await scene.request("POST", f"{PATH}/{provider}/test")).ok()["url"].removeprefix(BASE_URL)
    location = await scene.begin_test(tabs, await tabs.request("GET", place))
    lookup = scene.postern.tenancy.directory_answers.lookup
    meanwhile(monkeypatch, lookup, "asked", lambda: scene.people.change("delete from connection_tests"))
    back = await scene.post_answer(provider, scene.directory.answer(location))
    assert place_of(back) == place
    assert (await tabs.request("GET", place)).status == 400
    assert (await scene.record(provider))["state"] == "draft"
    assert scene.audited("organization.upstream_provider.tested") == []


async def test_another_directorys_key_signs_nobody_in(scene: ConnectionScene) -> None:
    provider = await scene.active()
    scene.verified()
    tabs = scene.browser()
    await scene.arrive(tabs, provider, signer=pair("somebody else"))
    assert await scene.who(tabs) is None

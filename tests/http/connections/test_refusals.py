"""What a directory, a browser or an administrator sends that no connection takes, and what comes a second time."""

from typing import Any
from uuid import uuid4

import pytest

from core.domain.errors import BadRequest
from core.domain.saml.entities import LONGEST_METADATA
from core.frozen import replace
from ports.outbound import NO_HEADERS, Failure, OutboundAnswer, OutboundFailed
from tests.http.browsing import PageReader, Tabs
from tests.http.client import refused
from tests.http.connections.fake_directory import SLO, SSO
from tests.http.connections.refreshing import ADDRESS, Answer, FakeOutbound
from tests.http.connections.scene import PATH, XML, ConnectionScene, place_of
from tests.http.connections.test_sign_outs import request
from tests.http.federation.providing import pair
from tests.http.people import BASE_URL
from tests.meanwhile import meanwhile


async def newest(house: ConnectionScene, provider: str) -> dict[str, Any]:
    await house.keep_recorded()
    found: dict[str, Any] = (await house.request("GET", f"{PATH}/{provider}/exchanges")).ok()["exchanges"][0]
    return found


class TestSignOuts:
    async def test_nobody_else_may_ask(self, house: ConnectionScene) -> None:
        provider = await house.active()
        ada, tabs = house.verified(), house.browser()
        await house.arrive(tabs, provider)
        asked = request(house, provider)
        unsigned = asked.partition("&SigAlg=")[0]
        elsewhere = request(house, str(uuid4())).replace(asked.partition("?")[0].rpartition("/slo")[0], "")
        for wrong, told in (
            (unsigned, "not signed"),
            (f"/saml/sp/{provider}/slo?{elsewhere.partition('?')[2]}", "Destination"),
        ):
            assert (await house.browser().request("GET", wrong)).status == 400
            assert told in (await newest(house, provider))["reason"]
            assert await house.who(tabs) == ada.user
        assert (await house.browser().request("GET", f"/saml/sp/{uuid4()}/slo?{asked.partition('?')[2]}")).status == 404

    async def test_a_session_that_has_ended_ends_once(self, house: ConnectionScene) -> None:
        provider = await house.active()
        house.verified()
        tabs = house.browser()
        await house.arrive(tabs, provider)
        for _ in range(2):
            assert (await house.browser().request("GET", request(house, provider))).status == 302
        assert len(house.people.rows("select from sessions where revoked_at is not null")) == 1

    async def test_a_directory_gets_its_answer_where_and_how_it_wants_it_or_none(self, house: ConnectionScene) -> None:
        post = house.directory.metadata().replace(
            'SingleLogoutService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect"',
            'SingleLogoutService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST"',
        )
        provider = await house.active()
        (await house.fill(provider, post)).ok()
        await house.test(provider)
        (await house.activate(provider)).ok()
        answer = await house.browser().request("GET", request(house, provider))
        (form,) = PageReader(answer.body).forms
        assert (form.action, form.fields["RelayState"]) == (SLO, "r")
        assert form.fields["SAMLResponse"]
        # The answer brings back what the request brought, and nothing where it brought nothing.
        answer = await house.browser().request("GET", request(house, provider, relay_state=None))
        (form,) = PageReader(answer.body).forms
        assert (form.action, [*form.fields]) == (SLO, ["SAMLResponse"])
        (await house.request("PATCH", f"{PATH}/{provider}", {"slo_url": "", "slo_response_url": ""})).ok()
        await house.test(provider)
        (await house.activate(provider)).ok()
        answer = await house.browser().request("GET", request(house, provider))
        assert answer.status == 200
        assert SLO.encode() not in answer.body


class TestAnswers:
    async def test_an_answer_to_nobody_is_404_and_one_that_comes_twice_counts_once(self, house: ConnectionScene) -> None:
        provider = await house.active()
        ada, tabs = house.verified(), house.browser()
        fields = house.directory.answer(await house.leave(tabs, "?org=acme", word=provider))
        assert (await house.post_answer(str(uuid4()), fields)).status == 404
        taken = await house.post_answer(provider, fields)
        await tabs.request("GET", place_of(taken))
        assert await house.who(tabs) == ada.user
        assert "code=" not in place_of(await house.post_answer(provider, fields))

    async def test_a_connection_that_wants_encrypted_assertions_takes_no_other(self, house: ConnectionScene) -> None:
        provider = await house.draft(wants_encrypted=True)
        page = await house.test(provider)
        assert b"All checks passed" not in page.body
        assert "not encrypted" in (await newest(house, provider))["reason"]

    async def test_a_person_needs_a_name_that_can_be_kept(self, house: ConnectionScene) -> None:
        house.directory.more = {"uid": "p-1"}
        provider = await house.active(subject_source="uid")
        house.directory.more = {"uid": "x" * 256}
        tabs = house.browser()
        await house.arrive(tabs, provider)
        assert await house.who(tabs) is None
        assert house.identities() == []


class TestMetadata:
    async def test_it_comes_from_the_document_or_from_the_address(self, house: ConnectionScene) -> None:
        provider = await house.draft()
        token = await house.tenants.token(house.speaker)
        path = f"{PATH}/{provider}/metadata?url={ADDRESS}"
        assert refused(await house.client.request("POST", path, body=b"<x/>", token=token, headers=XML)) == (400, "BAD_REQUEST")

    @pytest.mark.parametrize(
        "page", [OutboundAnswer(404, NO_HEADERS, b""), OutboundFailed(Failure.UNREACHABLE), b"x" * (LONGEST_METADATA + 1)]
    )
    async def test_an_address_has_to_lead_to_metadata(self, house: ConnectionScene, page: Answer) -> None:
        outbound = FakeOutbound({ADDRESS: page})
        with pytest.raises(BadRequest):
            await replace(house.postern.tenancy.connections, outbound=outbound).fetch(ADDRESS)
        outbound.pages[ADDRESS] = b"<x/>"
        assert await replace(house.postern.tenancy.connections, outbound=outbound).fetch(ADDRESS) == b"<x/>"

    async def test_the_same_again_changes_nothing(self, house: ConnectionScene) -> None:
        provider = await house.active()
        before = (await house.fill(provider)).ok()
        assert (await house.fill(provider)).ok() == before
        added = {"certificate": house.directory.certificate}
        again = (await house.request("POST", f"{PATH}/{provider}/certificate", added)).ok()
        assert len(again["saml"]["certificates"]) == 1
        assert again["state"] == before["state"] == "active"

    async def test_a_directory_must_take_redirects(self, house: ConnectionScene) -> None:
        provider = await house.draft()
        post = house.directory.metadata().replace(
            f'SingleSignOnService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect" Location="{SSO}"',
            f'SingleSignOnService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST" Location="{SSO}"',
        )
        assert refused(await house.fill(provider, post)) == (400, "BAD_REQUEST")


class TestTestsOfOpenIdConnect:
    """What the page of a test says when the provider does not do its part."""

    async def begun(self, house: ConnectionScene, provider: str, tabs: Tabs) -> tuple[str, str]:
        place = (await house.request("POST", f"{PATH}/{provider}/test")).ok()["url"].removeprefix(BASE_URL)
        return place, await house.begin_test(tabs, await tabs.request("GET", place))

    async def test_each_failure_is_told(self, house: ConnectionScene) -> None:
        provider = await house.own_provider(domain="")
        fake = house.sits(word="own")
        for name in ("an error", "no code", "another audience", "away"):
            tabs = house.browser()
            place, location = await self.begun(house, provider, tabs)
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
        assert house.identities() == []

    async def test_a_provider_that_is_away_is_told_at_once(self, house: ConnectionScene) -> None:
        provider = await house.own_provider(domain="")
        # Nobody has asked for this issuer's metadata, and nobody answers there.
        house.people.change("update upstream_providers set issuer = 'https://away.acme.example' where id = %s", provider)
        tabs = house.browser()
        place = (await house.request("POST", f"{PATH}/{provider}/test")).ok()["url"].removeprefix(BASE_URL)
        form = PageReader((await tabs.request("GET", place)).body).forms[0]
        await tabs.request("POST", form.action, form.fields)
        assert "can be reached" in PageReader((await tabs.request("GET", place)).body).text
        # Another browser's test is nobody else's.
        assert "can be reached" not in PageReader((await house.browser().request("GET", place)).body).text

    async def test_a_test_that_is_over_stays_over(self, house: ConnectionScene) -> None:
        provider = await house.own_provider(domain="")
        fake = house.sits(word="own")
        tabs = house.browser()
        place, location = await self.begun(house, provider, tabs)
        back = fake.consent(location)
        house.people.change("delete from connection_tests")
        assert (await tabs.request("GET", back)).status == 400
        assert (await tabs.request("GET", place)).status == 400

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
        self, house: ConnectionScene, change: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The answer is right, and would make the draft a tested one."""
        provider = await house.own_provider(domain="")
        house.people.change("update upstream_providers set state = 'draft', enabled = false where id = %s", provider)
        fake = house.sits(word="own")
        tabs = house.browser()
        _, location = await self.begun(house, provider, tabs)
        meanwhile(monkeypatch, house.postern.tenancy.connection_tests.lookup, "directory", lambda: house.people.change(change))
        assert (await tabs.request("GET", fake.consent(location))).status == 303
        assert [row["sealed_result"] for row in house.people.rows("select sealed_result from connection_tests")] in ([None], [])
        assert [row["state"] for row in house.people.rows("select state from upstream_providers")] in (["draft"], [])
        assert house.audited("organization.upstream_provider.tested") == []
        await house.keep_recorded()
        assert house.people.rows("select from connection_exchanges") == []


async def test_a_test_that_is_replaced_meanwhile_takes_no_answer(house: ConnectionScene, monkeypatch: pytest.MonkeyPatch) -> None:
    """An administrator begins another test, which ends this one, while the directory's answer is read."""
    provider = await house.draft()
    tabs = house.browser()
    place = (await house.request("POST", f"{PATH}/{provider}/test")).ok()["url"].removeprefix(BASE_URL)
    location = await house.begin_test(tabs, await tabs.request("GET", place))
    lookup = house.postern.tenancy.directory_answers.lookup
    meanwhile(monkeypatch, lookup, "asked", lambda: house.people.change("delete from connection_tests"))
    back = await house.post_answer(provider, house.directory.answer(location))
    assert place_of(back) == place
    assert (await tabs.request("GET", place)).status == 400
    assert (await house.record(provider))["state"] == "draft"
    assert house.audited("organization.upstream_provider.tested") == []


async def test_another_directorys_key_signs_nobody_in(house: ConnectionScene) -> None:
    provider = await house.active()
    house.verified()
    tabs = house.browser()
    await house.arrive(tabs, provider, signer=pair("somebody else"))
    assert await house.who(tabs) is None

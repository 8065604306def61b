"""An application is made in three questions, and its page has everything that its developers need."""

import re

import pytest

from entrypoints.http.console.organization.applications.making import CHOSEN, FRAMEWORKS, ApplicationKind
from tests.http.pages.console.applications.conftest import AT, CALLBACK, made
from tests.http.pages.console.conftest import ConsoleScene

SECRET = re.compile(r"cs_[A-Za-z0-9]{6}_[A-Za-z0-9_-]{20,}")


async def test_an_empty_list_says_how_the_first_one_comes(console: ConsoleScene) -> None:
    tab = await console.at(AT)
    assert tab.status == 200
    assert "No applications" in tab.page.text
    assert f"/ui/o/acme{AT}/~new" in tab.page.links


async def test_a_web_application_gets_its_secret_once_and_lines_with_it(console: ConsoleScene) -> None:
    billing = await made(console)
    page = console.tab.page.text
    assert console.tab.status == 200
    secret = SECRET.search(page)
    assert secret is not None
    # The lines contain the values, so that they work as they are copied.
    (service,) = console.people.rows("select client_id, service_type, redirect_uris, sign_in_policy from services")
    assert f"CLIENT_ID={service['client_id']}" in page
    assert f"CLIENT_SECRET={secret[0]}" in page
    assert "/.well-known/openid-configuration" in page
    for framework in FRAMEWORKS:
        assert (framework.name in page) is (ApplicationKind.WEB in framework.kinds)
    assert service["service_type"] == "web"
    assert service["redirect_uris"] == [CALLBACK]
    assert service["sign_in_policy"] == "anyone"
    await console.at(f"{billing}?built_with=flask")
    assert console.tab.status == 200
    assert not SECRET.search(console.tab.page.text)
    assert "CLIENT_SECRET=YOUR-CLIENT-SECRET" in console.tab.page.text
    await console.at(AT)
    assert f"/ui/o/acme{billing}" in console.tab.page.links


@pytest.mark.parametrize(
    ("kind", "service_type", "addresses", "shown"),
    [
        ("spa", "web", CALLBACK, "oidc-client-ts"),
        ("mobile", "mobile", "com.example.app:/callback", 'appAuthRedirectScheme: "com.example.app"'),
        ("desktop", "desktop", "http://127.0.0.1/callback", "AppAuth"),
        ("device", "desktop", "", "device_code"),
        ("machine", "api", "", "grant_type=client_credentials"),
    ],
)
async def test_each_kind_becomes_what_suits_it(kind: str, service_type: str, addresses: str, shown: str, console: ConsoleScene) -> None:
    await made(console, kind=kind, addresses=addresses)
    assert console.tab.status == 200
    assert shown in console.tab.page.text
    assert console.people.rows("select service_type from services") == [{"service_type": service_type}]
    assert bool(SECRET.search(console.tab.page.text)) is (kind == "machine")


async def test_an_application_that_speaks_saml_goes_on_to_its_configuration(console: ConsoleScene) -> None:
    await made(console, kind="saml", addresses="")
    assert console.tab.place == f"/ui/o/acme{AT}/billing/saml?done=made"
    assert console.tab.status == 200


async def test_each_question_that_was_left_out_is_named(console: ConsoleScene) -> None:
    await console.at(f"{AT}/~new")
    tab = await console.submit(f"{AT}/~new", name=" ", kind="", addresses="")
    assert tab.status == 400
    assert "Enter a name for the application." in tab.page.text
    assert "Choose a framework or an application type." in tab.page.text
    await console.at(f"{AT}/~new")
    tab = await console.submit(f"{AT}/~new", name="Billing", kind="web", addresses="")
    assert tab.status == 400
    assert "Enter at least one redirect URI" in tab.page.text
    assert console.people.rows("select from services") == []


async def test_a_refused_address_stands_at_its_question_and_the_rest_stays(console: ConsoleScene) -> None:
    await console.at(f"{AT}/~new")
    tab = await console.submit(f"{AT}/~new", name="Billing", kind="web", addresses="http://billing.example.com/")
    assert tab.status == 400
    assert "http:// is allowed only for localhost" in tab.page.text
    fields = console.fields(f"{AT}/~new").fields
    assert fields["addresses"] == "http://billing.example.com/"
    assert fields["name"] == "Billing"
    assert fields["kind"] == "web"


async def test_the_same_form_twice_makes_one_application(console: ConsoleScene) -> None:
    await console.at(f"{AT}/~new")
    form = console.fields(f"{AT}/~new")
    fields = {**form.fields, "name": "Billing", "kind": "web", "addresses": CALLBACK, "policy": "members"}
    for status in (200, 409):
        tab = await console.tab._go("POST", form.action, fields)
        assert tab.status == status
    assert "slug" in console.tab.page.forms[-1].fields
    assert len(console.people.rows("select from services")) == 1
    # The second secret would have been the first one's successor.
    assert len(console.people.rows("select from client_secrets")) == 1


async def test_others_make_nothing(console: ConsoleScene) -> None:
    for tab in (console.colleague(), console.stranger()[1]):
        assert (await tab.open(f"/ui/o/acme{AT}/~new")).status == 403
    admin = console.colleague("admin")
    assert (await admin.open(f"/ui/o/acme{AT}/~new")).status == 200


async def test_a_framework_answers_what_the_application_is_and_where_people_come_back_to(console: ConsoleScene) -> None:
    await console.at(f"{AT}/~new?kind=django")
    fields = console.fields(f"{AT}/~new").fields
    assert fields["kind"] == "django"
    assert fields["addresses"] == "http://localhost:3000/accounts/oidc/postern/login/callback/"
    # The address that the form began with belongs to the other one.
    await console.submit(f"{AT}/~new", name="Billing", kind="flask", policy="anyone")
    (service,) = console.people.rows("select service_type, redirect_uris, post_logout_redirect_uris, initiate_login_uri from services")
    assert service == {
        "service_type": "web",
        "initiate_login_uri": "http://localhost:3000/sign-in",
        "redirect_uris": ["http://localhost:3000/callback"],
        "post_logout_redirect_uris": ["http://localhost:3000"],
    }
    page = console.tab.page
    secret = SECRET.search(page.text)
    assert secret is not None
    assert f"export OIDC_CLIENT_SECRET={secret[0]}" in page.text
    assert re.search(r"export SESSION_SECRET=[0-9a-f]{64} ", page.text)
    assert "flask run --port 3000 Copy Then open http://localhost:3000" in page.text
    # The lines of the chosen framework have all values, so these and the other lines are folded.
    body = console.tab.shown.body.decode()
    assert '<details class="unfolds" open>' not in body
    assert body.index("flask run") < body.index('id="values"') < body.index('id="other-lines"') < body.index("npm ")
    assert "http://localhost:3000" in page.links


async def test_whoever_invites_from_the_page_comes_back_to_the_application(console: ConsoleScene) -> None:
    await made(console)
    tab = await console.submit("/people/invitations/~new", emails="bob@people.example")
    assert "Continue to Billing" in tab.page.text
    assert "/ui/o/acme/applications/billing" in tab.page.links


async def test_a_framework_without_a_server_gets_no_secret(console: ConsoleScene) -> None:
    await made(console, kind="react", addresses="http://localhost:5173/callback", elsewhere="yes")
    assert not SECRET.search(console.tab.page.text)
    (service,) = console.people.rows("select post_logout_redirect_uris, initiate_login_uri from services")
    assert service == {"post_logout_redirect_uris": ["http://localhost:5173"], "initiate_login_uri": "http://localhost:5173/sign-in"}
    assert "port: 5173" in console.tab.page.text
    assert "oidc-client-ts (untested)" in console.tab.page.text


async def test_an_address_that_the_lines_do_not_come_back_to_is_said(console: ConsoleScene) -> None:
    await made(console, kind="nextjs", addresses="https://app.example.com/elsewhere", elsewhere="yes")
    assert "that is not registered for the application: https://app.example.com/api/auth/callback/postern" in console.tab.page.text
    assert "export APP_URL=https://app.example.com " in console.tab.page.text


async def test_lines_that_nobody_has_run_say_so(console: ConsoleScene) -> None:
    await made(console)
    page = console.tab.page.text
    for framework in FRAMEWORKS:
        if ApplicationKind.WEB in framework.kinds:
            assert (f"{framework.name} (untested)" in page) is not framework.tested


@pytest.mark.parametrize("addresses", ["http://[", "https://", "no address"])
async def test_a_framework_at_an_address_that_is_none_is_refused(addresses: str, console: ConsoleScene) -> None:
    await console.at(f"{AT}/~new")
    tab = await console.submit(f"{AT}/~new", name="Billing", kind="flask", addresses=addresses, elsewhere="yes")
    assert tab.status == 400
    assert console.people.rows("select from services") == []


@pytest.mark.parametrize(
    ("kind", "addresses", "policy", "trusted"),
    [
        ("web", CALLBACK, "members", True),
        ("spa", f"{CALLBACK}\nhttps://other.example.com/callback", "members", True),
        # Everybody is asked what an application of others may learn of them.
        ("web", CALLBACK, "anyone", False),
        ("web", CALLBACK, "assigned", False),
        # Any program on the computer could receive the answer.
        ("web", "http://localhost:3000/callback", "members", False),
        ("web", "https://localhost:3000/callback", "members", False),
        ("web", f"{CALLBACK}\nhttp://127.0.0.1:3000/callback", "members", False),
        ("mobile", "https://app.example.com/callback", "members", False),
        ("desktop", "http://127.0.0.1/callback", "members", False),
        ("device", "", "members", False),
        ("machine", "", "members", False),
        ("mcp", "", "members", False),
    ],
)
async def test_members_of_the_house_are_not_asked_at_an_address_on_the_web(
    kind: str, addresses: str, policy: str, trusted: bool, console: ConsoleScene
) -> None:
    await made(console, kind=kind, addresses=addresses, policy=policy)
    assert console.people.rows("select trusted from services") == [{"trusted": trusted}]


async def test_whoever_takes_the_tick_from_it_lets_members_be_asked(console: ConsoleScene) -> None:
    await console.at(f"{AT}/~new")
    form = console.fields(f"{AT}/~new")
    assert form.fields["trusted"] == ["yes"]
    fields = {name: value for name, value in form.fields.items() if name != "trusted"}
    await console.tab._go("POST", form.action, {**fields, "name": "Billing", "kind": "web", "addresses": CALLBACK, "policy": "members"})
    assert console.people.rows("select trusted from services") == [{"trusted": False}]
    # A form that comes back keeps the choice.
    await console.at(f"{AT}/~new")
    await console.tab._go("POST", form.action, {**fields, "name": "", "kind": "web"})
    assert "trusted" not in console.fields(f"{AT}/~new").fields


@pytest.mark.parametrize("host", ["wiki.acme.example", "https://wiki.acme.example/start"])
async def test_an_application_behind_a_proxy_has_its_host_at_once_and_lines_with_it(host: str, console: ConsoleScene) -> None:
    console.people.change("update users set is_platform_owner = true where id = %s", console.ada.user)
    await made(console, kind="proxy", addresses=host)
    page = console.tab.page.text
    secret = SECRET.search(page)
    assert secret is not None
    assert f"header_up X-Postern-Proxy {secret[0]}" in page
    assert "wiki.acme.example {" in page
    assert "No host is configured for the reverse proxy" not in page
    # Whatever is behind a proxy reads nothing of ours.
    assert "OIDC_CLIENT_ID" not in page
    assert console.people.rows("select host from proxy_hosts") == [{"host": "wiki.acme.example"}]


async def test_a_host_without_a_proof_is_refused_in_words_and_the_application_stays(console: ConsoleScene) -> None:
    await made(console, kind="proxy", addresses="wiki.acme.example")
    assert "wiki.acme.example is not in a verified domain of your organization" in console.tab.page.text
    assert f"/ui/o/acme{AT}/billing/proxy" in console.tab.page.links
    assert console.people.rows("select host from proxy_hosts") == []
    assert console.people.rows("select service_type from services") == [{"service_type": "proxy"}]


async def test_a_framework_at_another_address_asks_for_it(console: ConsoleScene) -> None:
    await console.at(f"{AT}/~new")
    tab = await console.submit(f"{AT}/~new", name="Billing", kind="flask", addresses=" ", elsewhere="yes")
    assert tab.status == 400
    assert "Enter at least one redirect URI" in tab.page.text
    assert console.fields(f"{AT}/~new").fields["elsewhere"] == ["yes"]
    await console.submit(f"{AT}/~new", addresses=CALLBACK)
    assert console.people.rows("select redirect_uris from services") == [{"redirect_uris": [CALLBACK]}]


async def test_few_kinds_are_in_sight_and_whoever_has_chosen_another_sees_it(console: ConsoleScene) -> None:
    await console.at(f"{AT}/~new")
    before, _, folded = console.tab.shown.body.decode().partition('<details class="curl">')
    assert before.count('name="kind"') == 11
    assert folded.count('name="kind"') == len(CHOSEN) + len(ApplicationKind) - 11
    await console.at(f"{AT}/~new?kind=rails")
    assert '<details class="curl" open>' in console.tab.shown.body.decode()


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("wiki.acme.example:8443", "wiki.acme.example:8443 has a port"),
        ("https://wiki.acme.example:8443/start", "wiki.acme.example:8443 has a port"),
        ("wiki", "wiki has no dot"),
        ("http://localhost:3000", "localhost:3000 has a port"),
        ("*.acme.example", "Enter a host name with a dot"),
        ("wiki.acme.example\nWiki.acme.example", "Enter each line only once"),
    ],
)
async def test_a_host_that_cannot_be_served_is_refused_where_it_is_typed(host: str, said: str, console: ConsoleScene) -> None:
    await console.at(f"{AT}/~new")
    tab = await console.submit(f"{AT}/~new", name="Wiki", kind="proxy", addresses=host)
    assert tab.status == 400
    assert said.lower() in tab.page.text.lower()
    assert 'id="addresses-error"' in tab.shown.body.decode()
    assert console.fields(f"{AT}/~new").fields["addresses"] == host
    assert console.people.rows("select from services") == []


async def test_an_application_behind_a_proxy_without_a_host_says_that_one_is_missing(console: ConsoleScene) -> None:
    await made(console, kind="proxy", addresses="")
    assert "No host is configured for the reverse proxy" in console.tab.page.text
    assert "wiki.example.com {" in console.tab.page.text

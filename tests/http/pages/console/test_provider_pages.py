"""The form that adds a provider, and the record of an active one."""

from tests.http.pages.console.conftest import ConsoleScene

PROVIDERS = "/directories"
NEW = f"{PROVIDERS}/~new"


async def test_the_product_is_asked_first_and_nothing_is_chosen(console: ConsoleScene) -> None:
    body = (await console.at(NEW)).shown.body.decode()
    assert body.index('id="kind"') < body.index('id="name"')
    assert "kind" not in console.fields(NEW).fields
    assert "scopes" not in console.fields(NEW).fields
    tab = await console.submit(NEW, name="Ours")
    assert tab.status == 400
    assert '<a href="#kind">' in tab.shown.body.decode()
    assert console.people.rows("select from upstream_providers") == []


async def test_a_name_that_is_left_out_comes_from_the_product_or_from_the_issuer(console: ConsoleScene) -> None:
    await console.at(NEW)
    await console.submit(NEW, kind="okta", name=" ")
    assert console.people.rows("select name from upstream_providers") == [{"name": "Okta"}]
    # Each provider has a name of its own.
    await console.at(NEW)
    tab = await console.submit(NEW, kind="okta")
    assert tab.status == 400
    assert '<a href="#name">' in tab.shown.body.decode()
    await console.at(NEW)
    tab = await console.submit(NEW, kind="saml")
    assert tab.status == 400
    assert '<a href="#name">' in tab.shown.body.decode()
    for issuer, said in (("https://[", "#name"), ("https://login.example", "#client_id")):
        await console.at(NEW)
        tab = await console.submit(NEW, kind="oidc", issuer=issuer)
        assert tab.status == 400, issuer
        assert f'<a href="{said}">' in tab.shown.body.decode(), issuer
        assert ('<a href="#name">' in tab.shown.body.decode()) is (issuer == "https://["), issuer
    assert len(console.people.rows("select from upstream_providers")) == 1


async def test_a_draft_shows_its_steps_and_an_active_one_what_happens(console: ConsoleScene) -> None:
    await console.at(NEW)
    tab = await console.submit(NEW, kind="okta", name="Okta")
    assert "1. Enter these values at the identity provider" in tab.page.text
    assert "4. Activate the identity provider" in tab.page.text
    assert "Configuration" not in tab.page.text
    (provider,) = console.people.rows("select id from upstream_providers")
    # Only a test at a real directory leads there.
    console.people.change("update upstream_providers set state = 'active', activated_at = now()")
    text = (await console.at(f"{PROVIDERS}/{provider['id']}")).page.text
    assert "1. Enter these values at the identity provider" not in text
    assert text.index("Recent sign-ins, tests and sign-outs") < text.index("Configuration") < text.index("Run test")

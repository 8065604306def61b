"""The pages of one application: its settings, keys, rights, claims, plans, its end, and who may see and do what."""

import pytest

from tests.http.pages.account.conftest import ACTING, COOKIE
from tests.http.pages.console.applications.conftest import AT, CALLBACK, made
from tests.http.pages.console.conftest import ConsoleScene
from tests.pictures import drawn_png

# What every member of the organization may see, and what only those may who look after applications.
SEEN = (
    *("", "/secrets", "/api-keys", "/roles", "/permissions", "/claims", "/plans", "/saml", "/saml-certificate"),
    # Facts alone: the forms on these pages are for others.
    *("/sign-in", "/access", "/tokens", "/public-keys", "/signals", "/settings"),
)
KEPT = (
    *("/logout-notices", "/assignments", "/token-preview", "/saml-exchanges", "/refusals"),
    *("/settings/end", "/test-sign-in", "/test-sign-in/result", "/saml/off", "/saml-certificate/activate"),
    *("/secrets/~new", "/api-keys/~new", "/roles/~new", "/permissions/~new", "/assignments/~new", "/claims/~new", "/plans/~new"),
)


async def test_every_page_is_there_for_the_owner_and_for_nobody_else(console: ConsoleScene, billing: str) -> None:
    member, (_, stranger) = console.colleague(), console.stranger()
    for page in (*SEEN, *KEPT):
        tab = await console.at(f"{billing}{page}")
        assert tab.status == 200, page
        # The first page has ten whole programs to copy.
        assert len(tab.shown.body) < 60_000, page
        assert (await member.open(f"/ui/o/acme{billing}{page}")).status == (200 if page in SEEN else 403), page
        assert (await stranger.open(f"/ui/o/acme{billing}{page}")).status == 403, page
        # The application of one organization is nothing in another, also for the owner of that other one.
        if not page.endswith(("~new", "/off", "/activate")):
            assert (await stranger.open(f"/ui/o/globex{billing}{page}")).status == 404, page


async def test_who_may_see_applications_alone_finds_no_form(console: ConsoleScene, billing: str) -> None:
    member = console.colleague()
    tab = await member.open(f"/ui/o/acme{billing}")
    assert not {f"/ui/o/acme{billing}/settings", f"/ui/o/acme{billing}/test-sign-in"} & set(tab.page.links)
    for page in ("/secrets", "/api-keys", "/roles", "/plans"):
        tab = await member.open(f"/ui/o/acme{billing}{page}")
        assert f"/ui/o/acme{billing}{page}/~new" not in tab.page.links
    for page in ("/saml", "/sign-in", "/settings", "/public-keys"):
        tab = await member.open(f"/ui/o/acme{billing}{page}")
        # The forms that search and sign out are the only ones.
        assert [one.action for one in tab.page.forms] == ["/ui/o/acme/search", "/ui/sign-out"], page


async def test_sign_in_addresses_and_admission_are_changed_by_section(console: ConsoleScene, billing: str) -> None:
    await console.at(f"{billing}/sign-in")
    tab = await console.submit(f"{billing}/sign-in/addresses", redirect_uris=f"{CALLBACK}\r\nhttps://billing.example.com/other")
    assert tab.place.endswith("/sign-in?done=saved&fields=redirect_uris")
    assert "Saved: Redirect URIs." in tab.page.text
    await console.submit(f"{billing}/sign-in/admission", sign_in_policy="assigned", trusted=["yes"])
    (service,) = console.people.rows("select redirect_uris, sign_in_policy, trusted from services")
    assert service == {
        "redirect_uris": [CALLBACK, "https://billing.example.com/other"],
        "sign_in_policy": "assigned",
        "trusted": True,
    }
    tab = await console.submit(f"{billing}/sign-in/addresses", redirect_uris="ftp://billing.example.com")
    assert tab.status == 400
    assert console.fields(f"{billing}/sign-in/addresses").fields["redirect_uris"] == "ftp://billing.example.com"


async def test_public_keys_metadata_and_logout_are_changed(console: ConsoleScene, billing: str) -> None:
    await console.at(f"{billing}/settings")
    tab = await console.submit(f"{billing}/settings/metadata", metadata='{"cost": 1}')
    assert tab.place.endswith("?done=saved&fields=metadata")
    tab = await console.submit(f"{billing}/settings/metadata", metadata="{")
    assert tab.status == 400
    await console.at(f"{billing}/public-keys")
    await console.submit(f"{billing}/public-keys/algorithm", id_token_alg="ES256")
    await console.at(f"{billing}/sign-in")
    await console.submit(f"{billing}/sign-in/notices", backchannel_logout_uri="https://billing.example.com/ended")
    (service,) = console.people.rows("select metadata, id_token_alg, backchannel_logout_uri from services")
    assert service == {"metadata": {"cost": 1}, "id_token_alg": "ES256", "backchannel_logout_uri": "https://billing.example.com/ended"}


async def test_the_second_of_two_sees_what_the_first_has_changed(console: ConsoleScene, billing: str) -> None:
    await console.at(f"{billing}/settings")
    console.people.change("update services set name = 'Invoices'")
    tab = await console.submit(f"{billing}/settings/basics", name="Bills")
    assert tab.status == 409
    assert "Invoices" in tab.page.text


async def test_a_client_secret_is_made_shown_once_and_deleted(console: ConsoleScene, billing: str) -> None:
    tab = await console.at(f"{billing}/secrets/~new")
    assert "Existing secrets stay valid" in tab.page.text
    tab = await console.submit(f"{billing}/secrets/~new")
    assert "cs_" in tab.page.text
    # Two at most.
    await console.at(f"{billing}/secrets/~new")
    tab = await console.submit(f"{billing}/secrets/~new")
    assert tab.status == 400
    first, _ = console.people.rows("select id from client_secrets order by id")
    await console.at(f"{billing}/secrets/{first['id']}/end")
    await console.submit(f"{billing}/secrets/{first['id']}/end")
    assert len(console.people.rows("select from client_secrets")) == 1


async def test_an_api_key_is_made_with_its_permissions(console: ConsoleScene, billing: str) -> None:
    await console.at(f"{billing}/api-keys/~new")
    tab = await console.submit(f"{billing}/api-keys/~new", name="Server", permissions=["read:users"], expires_in_days="30")
    assert "sk_" in tab.page.text
    (key,) = console.people.rows("select id, permissions from api_keys")
    assert key["permissions"] == ["read:users"]
    tab = await console.at(f"{billing}/api-keys/{key['id']}")
    assert "Server" in tab.page.text
    await console.at(f"{billing}/api-keys")
    assert "Server" in console.tab.page.text


async def test_a_role_gets_permissions_and_is_given_to_a_person_by_address(console: ConsoleScene, billing: str) -> None:
    await console.at(f"{billing}/assignments/~new")
    assert "No roles" in console.tab.page.text
    await console.at(f"{billing}/permissions/~new")
    await console.submit(f"{billing}/permissions/~new", key="invoices:write")
    await console.at(f"{billing}/roles/~new")
    await console.submit(f"{billing}/roles/~new", name="Editor", slug="editor", permissions=["invoices:write"])
    assert console.tab.place == f"/ui/o/acme{billing}/roles/editor?done=made"
    bob = console.people.add("bob@example.org")
    console.tenants.join(bob, console.acme)
    await console.at(f"{billing}/assignments/~new")
    tab = await console.submit(f"{billing}/assignments/~new", role="editor", person="bob@example.org")
    assert tab.place == f"/ui/o/acme{billing}/assignments?done=made"
    assert "bob@example.org" in tab.page.text
    await console.at(f"{billing}/assignments/~new")
    await console.submit(f"{billing}/assignments/~new", role="editor", organization_role="admin")
    assert "Administrator" in console.tab.page.text


@pytest.mark.parametrize(
    ("fields", "status", "said"),
    [
        ({"role": "", "person": "ada@example.org"}, 400, "Choose a role."),
        ({"role": "editor"}, 400, "Choose a person, an organization role or a team."),
        ({"role": "editor", "person": "x@example.org", "organization_role": "admin"}, 400, "Choose only one"),
        (
            {"role": "editor", "person": "nobody@example.org"},
            404,
            "No member of the organization and no user of the application has this email address or ID",
        ),
        ({"role": "editor", "person": "01a20686-52f3-77fe-b295-49fbf1cdd2d2"}, 400, "There is a problem"),
    ],
)
async def test_an_assignment_says_what_is_missing(
    fields: dict[str, str], status: int, said: str, console: ConsoleScene, billing: str
) -> None:
    await console.at(f"{billing}/roles/~new")
    await console.submit(f"{billing}/roles/~new", name="Editor", slug="editor")
    await console.at(f"{billing}/assignments/~new")
    tab = await console.submit(f"{billing}/assignments/~new", **fields)
    assert tab.status == status
    assert said in tab.page.text
    # Somebody of another organization is nobody here.
    stranger, _ = console.stranger()
    address = console.people.rows("select email from users where id = %s", stranger.user)[0]["email"]
    await console.at(f"{billing}/assignments/~new")
    tab = await console.submit(f"{billing}/assignments/~new", role="editor", person=address)
    assert tab.status == 404


async def test_a_claim_of_a_field_that_the_person_writes_is_marked(console: ConsoleScene, billing: str) -> None:
    await console.at(f"{billing}/claims/~new")
    tab = await console.submit(
        f"{billing}/claims/~new", name="tier", source="constant", argument__constant='{"level": 1}', argument__person_field="of no use"
    )
    assert tab.place.startswith(f"/ui/o/acme{billing}/claims/")
    (claim,) = console.people.rows("select id, argument from service_claims")
    assert claim["argument"] == {"level": 1}
    await console.submit(f"{billing}/claims/{claim['id']}/change", argument__constant="gold")
    await console.at(f"{billing}/claims/{claim['id']}")
    assert console.fields(f"{billing}/claims/{claim['id']}/change").fields["argument__constant"] == "gold"
    # A text that would read as JSON is shown in quotes, so that it stays a text.
    await console.submit(f"{billing}/claims/{claim['id']}/change", argument__constant='"5"')
    assert console.people.rows("select argument from service_claims") == [{"argument": "5"}]
    assert console.fields(f"{billing}/claims/{claim['id']}/change").fields["argument__constant"] == '"5"'
    console.people.change(
        "insert into profile_fields (id, org_id, key, label, kind, written_by, created_at, updated_at)"
        " select gen_random_uuid(), id, 'team', 'Team', 'text', '{person}', now(), now() from organizations where slug = 'acme'"
    )
    await console.at(f"{billing}/claims/{claim['id']}")
    await console.submit(f"{billing}/claims/{claim['id']}/change", source="organization_field", argument__organization_field="team")
    assert "The person, who can enter any value: do not base permissions on it" in console.tab.page.text
    assert console.fields(f"{billing}/claims/{claim['id']}/change").fields["argument__constant"] == ""


async def test_the_second_field_of_a_claim_follows_the_first(console: ConsoleScene, billing: str) -> None:
    await console.at(f"{billing}/claims/~new")
    at = f"{billing}/claims/~new"
    assert sorted(console.fields(at).fields["into"]) == ["id_token", "userinfo"]
    # The fault stands at the field that counts.
    await console.submit(at, name="tier", source="constant", argument__organization="slug")
    assert console.tab.status == 400
    assert console.tab.page.inputs["argument__constant"]["aria-invalid"] == "true"
    await console.submit(at, name="tier", source="organization", argument__organization="slug")
    (claim,) = console.people.rows("select id, source, argument from service_claims")
    assert (claim["source"], claim["argument"]) == ("organization", "slug")
    # A source without a second field empties it; another name keeps it.
    one = f"{billing}/claims/{claim['id']}"
    await console.at(one)
    await console.submit(f"{one}/change", name="level")
    assert console.people.rows("select name, argument from service_claims") == [{"name": "level", "argument": "slug"}]
    await console.submit(f"{one}/change", source="teams")
    assert console.people.rows("select source, argument from service_claims") == [{"source": "teams", "argument": None}]


async def test_a_plan_is_made_changed_and_deleted(console: ConsoleScene, billing: str) -> None:
    await console.at(f"{billing}/plans/~new")
    await console.submit(f"{billing}/plans/~new", name="Team", price_cents="19", currency="eur", features="export\nsupport")
    (plan,) = console.people.rows("select id, features from plans where name = 'Team'")
    assert plan["features"] == ["export", "support"]
    await console.at(f"{billing}/plans")
    assert "19.00 EUR" in console.tab.page.text
    await console.at(f"{billing}/plans/{plan['id']}/end")
    await console.submit(f"{billing}/plans/{plan['id']}/end")
    assert console.tab.place == f"/ui/o/acme{billing}/plans?done=console.plans.end"
    assert "19.00 EUR" not in console.tab.page.text


async def test_a_price_shows_its_currency_wherever_it_stands(console: ConsoleScene, billing: str) -> None:
    await console.at(f"{billing}/plans/~new")
    await console.submit(f"{billing}/plans/~new", name="Team", price_cents="990", currency="jpy")
    (plan,) = console.people.rows("select id from plans where name = 'Team'")
    one = f"{billing}/plans/{plan['id']}"
    await console.at(one)
    await console.submit(f"{one}/change", price_cents="1200")
    # What an undo would bring back, and what the audit log says, though the currency stayed.
    said = (await console.at(one)).page.text
    assert "Previous values: Price 990 JPY Undo change" in said
    assert "Price 1200 JPY" in said
    assert "Currency jpy" not in said
    (entry,) = console.people.rows("select id from audit_log where action = 'plan.updated'")
    assert "Price 990 JPY 1200 JPY" in (await console.at(f"/audit-log/{entry['id']}")).page.text
    await console.at(one)
    await console.submit(f"{one}/change", price_cents="15", currency="eur")
    (entry,) = console.people.rows("select id from audit_log where action = 'plan.updated' order by id desc limit 1")
    said = (await console.at(f"/audit-log/{entry['id']}")).page.text
    assert "Price 1200 JPY 15.00 EUR" in said, said


async def test_a_price_is_typed_in_the_own_unit_of_its_currency(console: ConsoleScene, billing: str) -> None:
    new = f"{billing}/plans/~new"

    def priced() -> list[tuple[int, str]]:
        rows = console.people.rows("select price_cents, currency from plans where name <> 'Free' order by id")
        return [(row["price_cents"], row["currency"]) for row in rows]

    for amount, currency in (("9,90", "eur"), ("990", "JPY"), ("9.900", "kwd")):
        await console.at(new)
        await console.submit(new, name=currency, price_cents=amount, currency=currency)
    assert priced() == [(990, "eur"), (990, "jpy"), (9900, "kwd")]
    page = (await console.at(f"{billing}/plans")).page
    assert all(said in page.text for said in ("9.90 EUR", "990 JPY", "9.900 KWD"))
    (plan,) = console.people.rows("select id from plans where name = 'eur'")
    one = f"{billing}/plans/{plan['id']}"
    await console.at(one)
    assert console.fields(f"{one}/change").fields["price_cents"] == "9.90"
    # Of another currency, the same amount is another number. What has no such amount is refused at the field, and nothing is changed.
    tab = await console.submit(f"{one}/change", currency="jpy")
    assert (tab.status, tab.page.inputs["price_cents"].get("aria-invalid")) == (400, "true")
    assert "9.90 EUR, 990 JPY, 9.900 KWD" in tab.page.text
    assert priced()[0] == (990, "eur")
    await console.at(one)
    await console.submit(f"{one}/change", currency="kwd")
    assert priced()[0] == (9900, "kwd")
    await console.at(one)
    await console.submit(f"{one}/change", price_cents="9,9", currency="usd")
    assert priced()[0] == (990, "usd")
    # And back, by the button of the page.
    tab = await console.at(one)
    newest = next(number for number, form in enumerate(tab.page.forms) if form.action.endswith(f"{one}/change/undo"))
    await tab.send(newest)
    assert priced()[0] == (9900, "kwd")
    # A change of the name leaves both alone.
    await console.at(one)
    await console.submit(f"{one}/change", name="Team")
    assert priced()[0] == (9900, "kwd")


async def test_the_end_of_an_application_counts_what_ends_and_asks_for_its_name(console: ConsoleScene, billing: str) -> None:
    tab = await console.at(f"{billing}/settings/end")
    assert "1 plan" in tab.page.text
    assert "1 client secret" in tab.page.text
    tab = await console.submit(f"{billing}/settings/end", typed="billing")
    assert tab.status == 400
    tab = await console.submit(f"{billing}/settings/end", typed="Billing")
    assert tab.place == f"/ui/o/acme{AT}?done=console.application.end"
    assert console.people.rows("select from services") == []
    # An administrator is no owner.
    other = await made(console, "Other")
    assert (await console.colleague("admin").open(f"/ui/o/acme{other}/settings/end")).status == 403


async def test_while_impersonating_nobody_makes_anything_that_lasts(console: ConsoleScene, billing: str) -> None:
    owner = console.people.add(platform_owner=True)
    console.people.change(
        "update sessions set impersonator_id = %s, impersonation_id = id, parent_id = %s, depth = 1 where id = %s",
        *(owner.user, owner.session, console.ada.session),
    )
    console.tabs.cookies = {ACTING: console.tabs.cookies[COOKIE], COOKIE: console.browser(owner).cookies[COOKIE]}
    tab = await console.at(f"{billing}/secrets")
    assert tab.status == 200
    assert "You are impersonating" in tab.page.text
    assert f"/ui/o/acme{billing}/secrets/~new" not in tab.page.links
    for page in ("/secrets/~new", "/api-keys/~new", "/claims/~new"):
        assert (await console.at(f"{billing}{page}")).status == 403
    assert (await console.at(f"{AT}/~new")).status == 403


async def test_an_application_gets_a_logo_and_loses_it(console: ConsoleScene, billing: str) -> None:
    at = f"{billing}/logo"
    assert f"/ui/o/acme{at}" in (await console.at(f"{billing}/settings")).page.links
    await console.at(at)
    tab = await console.submit(at, logo=b"<svg/>")
    assert (tab.status, tab.page.inputs["logo"]["aria-invalid"]) == (400, "true")
    tab = await console.submit(at, logo=drawn_png())
    assert tab.place == f"/ui/o/acme{at}?done=console.application_logo.upload"
    (row,) = console.people.rows("select logo_digest from services")
    for page in (billing, AT, at):
        assert f'src="/logos/{row["logo_digest"]}"' in (await console.at(page)).shown.body.decode(), page
    await console.at(at)
    tab = await console.submit(f"{at}/remove")
    assert tab.place == f"/ui/o/acme{at}?done=console.application_logo.remove"
    assert console.people.rows("select from service_logos") == []

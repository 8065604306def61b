"""The texts of the installation, and the texts of organizations that wait for a platform owner's yes."""

from typing import Any

from tests.http.pages.console.platform.conftest import HOME, PlatformScene

APPROVALS = "/texts"
SUBJECT = {"mail_invitation.subject": "{organization} asks you in"}


async def written(platform: PlatformScene, **texts: str) -> None:
    """Acme has these texts in German, beside a subject."""
    owner = platform.people.add()
    platform.tenants.join(owner, platform.acme, "owner")
    body: dict[str, Any] = {"language": "de", "texts": {**SUBJECT, **texts}}
    token = await platform.tenants.token(owner)
    answer = await platform.client.request("PATCH", "/api/organizations/acme/texts", body=body, token=token)
    assert answer.status == 200, answer.body


def approved(platform: PlatformScene) -> bool:
    return bool(platform.people.rows("select from all_organizations where approved_texts = texts_digest"))


async def test_the_installation_has_texts_of_its_own(platform: PlatformScene) -> None:
    place = "/settings/texts/common/en"
    assert (await platform.at("/settings/texts")).status == 200
    await platform.at(place)
    tab = await platform.send_to(f"{HOME}{place}", sign_in__title="Welcome")
    assert "Saved: Title \u2013 without an application (English)." in tab.page.text
    assert platform.people.rows("select org_id, key, text from organization_texts") == [
        {"org_id": None, "key": "sign_in.title", "text": "Welcome"}
    ]
    tab = await platform.send_to(f"{HOME}{place}", sign_in__title="<i>Welcome</i>")
    assert tab.status == 400
    assert "HTML is not supported and would be shown as text" in tab.page.text
    assert "No texts to review" in (await platform.at("/settings/texts/outdated")).page.text
    tab = await platform.at(place)
    assert "Previous values: Title \u2013 without an application None Undo change" in tab.page.text


async def test_owners_look_at_the_page_and_the_mail_in_which_a_text_stands(platform: PlatformScene) -> None:
    await platform.at("/settings/texts/sign_in/en")
    tab = await platform.send_to(f"{HOME}/settings/texts/sign_in/en", sign_in__title_to="{service}: welcome")
    await platform.postern.foundation.installation_words.read()
    page = f"{HOME}/settings/texts/pages/sign_in/en"
    assert page in tab.page.links
    assert "Shop : welcome" in (await platform.at("/settings/texts/pages/sign_in/en")).page.text
    mail = "/settings/texts/mails/reset/en"
    assert f"{HOME}{mail}" in (await platform.at("/settings/texts/mail_password/en")).page.links
    tab = await platform.at(mail)
    assert f"{HOME}{mail}/html" in tab.page.links
    assert "Choose a new password" in (await platform.at(f"{mail}/html")).page.text
    # The installation sends no mail to whoever looks.
    assert f"{HOME}{mail}" not in {form.action for form in tab.page.forms}


async def test_texts_of_the_installation_ask_for_a_fresh_proof(platform: PlatformScene) -> None:
    place = "/settings/texts/common/en"
    await platform.at(place)
    platform.people.change("update sessions set proved_at = now() - interval '1 hour'")
    tab = await platform.send_to(f"{HOME}{place}", sign_in__title="Welcome")
    assert not tab.place.startswith(HOME), tab.place
    assert platform.people.rows("select from organization_texts") == []


async def test_a_platform_owner_says_yes_to_the_texts_that_the_page_shows(platform: PlatformScene) -> None:
    assert "No custom text" in (await platform.at(APPROVALS)).page.text
    await written(platform)
    record = f"{APPROVALS}/{platform.acme.id}"
    tab = await platform.at(APPROVALS)
    assert f"/ui/platform{record}" in tab.page.links
    assert "Pending approval" in tab.page.text
    text = (await platform.at(record)).page.text
    assert "Email: Invitation mail_invitation.subject Deutsch Einladung zu {organization} {organization} asks you in" in text, text
    asked = await platform.at(f"{record}/approve")
    assert "{organization} asks you in" in asked.page.text
    # Meanwhile the organization writes another.
    await written(platform, **{"sign_in.title": "Willkommen"})
    tab = await platform.send_to(f"{HOME}{record}/approve")
    assert tab.status == 409
    assert "The organization changed its texts after you opened them. Review them again." in tab.page.text
    assert "Willkommen" in tab.page.text
    assert not approved(platform)
    tab = await platform.send_to(f"{HOME}{record}/approve")
    assert "Custom text approved. Emails from the installation\u2019s server now use it." in tab.page.text
    assert approved(platform)
    await platform.answer(f"{record}/withdraw")
    assert not approved(platform)


async def test_owners_see_how_many_organizations_wait(platform: PlatformScene) -> None:
    waits, counted = "Custom text of 1 organization is pending approval.", "Organizations 1 "

    async def told() -> tuple[bool, bool]:
        """By the overview, and by the side list of every page."""
        page = (await platform.at("")).page
        assert (waits in page.text) == (f"{HOME}{APPROVALS}" in page.links)
        return waits in page.text, counted in page.text

    assert await told() == (False, False)
    await written(platform)
    assert await told() == (True, True)
    await platform.at(f"{APPROVALS}/{platform.acme.id}/approve")
    await platform.send_to(f"{HOME}{APPROVALS}/{platform.acme.id}/approve")
    assert await told() == (False, False)
    # A yes is for the texts that were seen.
    await written(platform, **{"sign_in.title": "Willkommen"})
    assert await told() == (True, True)
    # Where all own texts show at once, nobody waits.
    await platform.at(f"{APPROVALS}/rules")
    await platform.send_to(f"{HOME}{APPROVALS}/rules/change", mails="")
    assert platform.people.rows("select mails, pages from text_approval_rules") == [{"mails": False, "pages": False}]
    assert await told() == (False, False)


async def test_where_own_texts_wait_is_set(platform: PlatformScene) -> None:
    place = f"{APPROVALS}/rules"
    await platform.at(place)
    tab = await platform.send_to(f"{HOME}{place}/change", mails="yes", pages="yes")
    assert tab.place.endswith("?done=saved&fields=pages"), tab.page.text
    assert platform.people.rows("select mails, pages from text_approval_rules") == [{"mails": True, "pages": True}]

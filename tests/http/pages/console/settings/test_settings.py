"""Settings on pages: the name, the looks, the domain, the mail server, own clients, billing, and the end."""

from typing import Any

import pytest

from tests.http.pages.console.conftest import ConsoleScene
from tests.pictures import drawn_png

SETTINGS = "/settings"
PLACES = ["", "/looks", "/domain", "/mail-server", "/billing", "/danger", "/danger/transfer", "/danger/delete"]


def looks_form(console: ConsoleScene) -> Any:
    return next(form for form in console.tab.page.forms if "primary_color" in form.fields)


async def test_the_name_changes_and_the_limits_stand_there(console: ConsoleScene) -> None:
    tab = await console.at(SETTINGS)
    assert "1 / " in tab.page.text
    tab = await console.submit(f"{SETTINGS}/change", name="Acme Works", metadata='{"contract": "A-17"}')
    assert tab.place.endswith("?done=saved&fields=name+metadata")
    assert "Saved: Name; Metadata." in tab.page.text
    (row,) = console.people.rows("select name, metadata from organizations where slug = 'acme'")
    assert row == {"name": "Acme Works", "metadata": {"contract": "A-17"}}


async def test_looks_are_seen_before_they_are_saved(console: ConsoleScene) -> None:
    await console.at(f"{SETTINGS}/looks")
    look = f"{SETTINGS}/looks"
    form = looks_form(console)
    tab = await console.tab._go("POST", form.action.partition("#")[0], {**form.fields, "primary_color": "#a01040", "step": "preview"})
    assert tab.status == 200
    assert "Not saved" in tab.page.text
    (sheet,) = [one for one in tab.shown.body.decode().split('"') if "/preview-a01040.css" in one]
    style = await console.tab.open(sheet)
    assert style.status == 200
    assert b".preview{--accent:#a01040" in style.shown.body
    assert console.people.rows("select primary_color from organizations where slug = 'acme'") == [{"primary_color": None}]
    await console.at(look)
    form = looks_form(console)
    tab = await console.tab._go("POST", form.action.partition("#")[0], {**form.fields, "primary_color": "#a01040", "step": "save"})
    assert tab.place == f"/ui/o/acme{look}?done=saved"
    assert console.people.rows("select primary_color from organizations where slug = 'acme'") == [{"primary_color": "#a01040"}]


async def test_a_logo_comes_from_a_file_and_goes(console: ConsoleScene) -> None:
    look = "/settings/looks"
    await console.at(look)
    tab = await console.submit(f"{look}/logo", logo=b"<svg/>")
    assert tab.status == 400
    assert tab.page.inputs["logo"]["aria-invalid"] == "true"
    assert "PNG, JPEG or WebP" in tab.page.text
    tab = await console.submit(f"{look}/logo", logo=drawn_png())
    assert tab.place == f"/ui/o/acme{look}?done=console.looks.upload"
    (row,) = console.people.rows("select logo_digest from organizations where slug = 'acme'")
    # The preview shows it, in the page and in the mail.
    assert tab.shown.body.decode().count(f'src="/logos/{row["logo_digest"]}"') >= 2
    await console.submit(f"{look}/logo/remove")
    assert console.people.rows("select from logos") == []
    assert f"{look}/logo/remove" not in (await console.at(look)).shown.body.decode()


@pytest.mark.parametrize("color", ["red", "#12", "</style>", "#gggggg"])
async def test_a_colour_that_is_none_is_refused(color: str, console: ConsoleScene) -> None:
    await console.at(f"{SETTINGS}/looks")
    form = looks_form(console)
    for step in ("preview", "save"):
        tab = await console.tab._go("POST", form.action.partition("#")[0], {**form.fields, "primary_color": color, "step": step})
        assert tab.status == 400
        assert tab.page.inputs["primary_color"]["value"] == color
        assert "/preview-" not in tab.shown.body.decode()


async def send(console: ConsoleScene, **fields: str) -> Any:
    await console.at(f"{SETTINGS}/looks")
    form = looks_form(console)
    return await console.tab._go("POST", form.action.partition("#")[0], {**form.fields, **fields})


async def test_the_preview_wears_all_of_the_look(console: ConsoleScene) -> None:
    tab = await send(console, second_color="#a01040", corner="12", font="slab", step="preview")
    assert tab.status == 200
    (sheet,) = [one for one in tab.shown.body.decode().split('"') if "/preview-x-a01040-12-slab-x.css" in one]
    style = (await console.tab.open(sheet)).shown.body
    assert b".preview{--corner:12px;--card:12px;--font:Rockwell" in style
    tab = await send(console, second_color="#a01040", corner="12", font="slab", step="save")
    assert tab.place == f"/ui/o/acme{SETTINGS}/looks?done=saved"
    (row,) = console.people.rows("select look from organizations where slug = 'acme'")
    assert row["look"] == '{"corner": 12, "font": "slab", "second_color": "#a01040"}'


async def test_a_second_colour_that_cannot_be_read_is_refused_at_its_field_with_the_nearest(console: ConsoleScene) -> None:
    for step in ("preview", "save"):
        tab = await send(console, second_color="#ffe066", step=step)
        assert tab.status == 400
        assert tab.page.inputs["second_color"]["aria-invalid"] == "true"
        assert "The nearest readable color is #836d00" in tab.page.text
        assert 'name="nearest" value="second_color #836d00"' in tab.shown.body.decode()
    tab = await send(console, second_color="#ffe066", nearest="second_color #836d00")
    assert (tab.status, tab.page.inputs["second_color"]["value"]) == (200, "#836d00")


async def test_the_page_offers_the_nearest_of_a_pale_first_colour(console: ConsoleScene) -> None:
    tab = await send(console, primary_color="#ffe066", step="preview")
    assert "On a light background, text in this color is not readable (contrast 1.19, required 4.50)" in tab.page.text
    assert 'name="nearest" value="primary_color #836d00"' in tab.shown.body.decode()
    tab = await send(console, primary_color="#ffe066", nearest="primary_color #836d00")
    assert tab.page.inputs["primary_color"]["value"] == "#836d00"
    assert "On a light background" not in tab.page.text
    # What somebody else has put there is no colour, and names no other field.
    tab = await send(console, nearest="primary_color </style>")
    assert tab.status == 400
    tab = await send(console, nearest="help_url https://evil.example")
    assert tab.page.inputs["help_url"].get("value", "") == ""


@pytest.mark.parametrize("name", ["dark_logo", "favicon", "background"])
async def test_the_other_pictures_come_from_files_and_go(name: str, console: ConsoleScene) -> None:
    look = f"{SETTINGS}/looks"
    at = f"{look}/{name.replace('_', '-')}"
    await console.at(look)
    tab = await console.submit(at, **{name: b"<svg/>"})
    assert (tab.status, tab.page.inputs[name]["aria-invalid"]) == (400, "true")
    tab = await console.submit(at, **{name: drawn_png()})
    assert tab.place == f"/ui/o/acme{look}?done=console.looks.upload_{name}"
    assert len(console.people.rows("select from look_pictures where kind = %s", name)) == 1
    tab = await console.submit(f"{at}/remove")
    assert tab.place == f"/ui/o/acme{look}?done=console.looks.remove_{name}"
    assert console.people.rows("select from look_pictures") == []


async def test_the_domain_is_set_and_shows_its_proof(console: ConsoleScene) -> None:
    tab = await console.at(f"{SETTINGS}/domain")
    assert "No custom domain" in tab.page.text
    await console.submit(f"{SETTINGS}/domain/change", domain="login.acme.example")
    tab = await console.at(f"{SETTINGS}/domain")
    (row,) = console.people.rows("select token from domains")
    assert row["token"] in tab.page.text
    assert "Not verified" in tab.page.text
    await console.at(f"{SETTINGS}/domain/end")
    await console.submit(f"{SETTINGS}/domain/end")
    assert console.people.rows("select from domains") == []


async def test_the_mail_server_keeps_its_password_to_itself(console: ConsoleScene) -> None:
    place = f"{SETTINGS}/mail-server"
    fields = {"host": "smtp.acme.example", "port": "587", "username": "acme", "password": "correct horse", "from_email": "it@acme.example"}
    await console.at(place)
    tab = await console.submit(f"{place}/change", **{**fields, "from_email": "none"})
    assert tab.status == 400
    assert "correct horse" not in tab.shown.body.decode()
    tab = await console.submit(f"{place}/change", **{**fields, "from_name": "Globex"})
    assert tab.status == 400
    assert "with the name of the organization: Acme" in tab.page.text
    await console.submit(f"{place}/change", **{**fields, "from_name": "Acme IT"})
    tab = await console.at(place)
    assert "smtp.acme.example" in tab.page.text
    assert "Acme IT" in tab.page.text
    assert "correct horse" not in tab.shown.body.decode()
    console.people.change("update mail_servers set failing_since = now()")
    assert "Failing" in (await console.at(place)).page.text
    await console.at(f"{place}/end")
    await console.submit(f"{place}/end")
    assert console.people.rows("select from mail_servers") == []


async def test_a_client_at_a_provider_is_set_and_removed(console: ConsoleScene) -> None:
    place = "/sign-in/providers"
    assert "GitHub" in (await console.at(place)).page.text
    tab = await console.at(f"{place}/codehost")
    assert "/auth/codehost/callback" in tab.page.text
    tab = await console.submit(f"{place}/codehost", client_id="Iv1.4f2d")
    assert tab.status == 400
    tab = await console.submit(f"{place}/codehost", client_id="Iv1.4f2d", client_secret="3c6e0b8a")
    assert tab.place.endswith("?done=saved")
    assert "Iv1.4f2d" in tab.page.text
    tab = await console.at(f"{place}/codehost")
    assert "3c6e0b8a" not in tab.shown.body.decode()
    await console.at(f"{place}/codehost/end")
    tab = await console.submit(f"{place}/codehost/end")
    assert "Iv1.4f2d" not in tab.page.text
    assert (await console.at(f"{place}/none")).status == 404


async def test_billing_that_is_off_says_so(console: ConsoleScene) -> None:
    tab = await console.at(f"{SETTINGS}/billing")
    assert "this installation has no payment provider" in tab.page.text
    # There is no button that could only fail.
    assert "Manage billing" not in tab.page.text


async def test_a_logo_that_could_not_be_fetched_says_why(console: ConsoleScene) -> None:
    await console.at(f"{SETTINGS}/looks")
    for address, why in (
        ("http://10.0.0.1/logo.png", "This URL is not public"),
        ("http://127.0.0.1:1/logo.png", "could not be reached"),
    ):
        tab = await console.tab._go(
            "POST", f"/ui/o/acme{SETTINGS}/looks", {**console.fields(f"{SETTINGS}/looks#preview").fields, "logo_url": address}
        )
        assert tab.status == 400
        assert why in tab.page.text, tab.page.text
        assert "The request could not be processed" not in tab.page.text


async def test_the_ownership_goes_to_a_member(console: ConsoleScene) -> None:
    person = console.people.add()
    console.tenants.join(person, console.acme)
    await console.at(f"{SETTINGS}/danger/transfer")
    tab = await console.submit(f"{SETTINGS}/danger/transfer", user_id="")
    assert tab.status == 400
    stranger, _ = console.stranger()
    tab = await console.submit(f"{SETTINGS}/danger/transfer", user_id=str(stranger.user))
    assert tab.status in {400, 404}
    tab = await console.submit(f"{SETTINGS}/danger/transfer", user_id=str(person.user))
    assert tab.place == "/ui/o/acme?done=console.danger.transfer"
    roles = {
        row["user_id"]: row["role"]
        for row in console.people.rows("select user_id, role from memberships where org_id = %s", console.acme.id)
    }
    assert roles == {console.ada.user: "admin", person.user: "owner"}
    # The former owner cannot do it again.
    assert (await console.at(f"{SETTINGS}/danger/transfer")).status == 403


async def test_the_deletion_asks_for_the_slug(console: ConsoleScene) -> None:
    place = f"{SETTINGS}/danger/delete"
    tab = await console.at(place)
    assert "One member loses access." in tab.page.text
    tab = await console.submit(place, typed="globex")
    assert tab.status == 400
    assert console.people.rows("select from organizations where slug = 'acme'")
    tab = await console.submit(place, typed="acme")
    assert tab.place.startswith("/ui/organizations")
    assert console.people.rows("select from organizations where slug = 'acme'") == []


@pytest.mark.parametrize("place", ["/danger/transfer", "/danger/delete"])
async def test_danger_needs_a_fresh_proof(place: str, console: ConsoleScene) -> None:
    console.grow_old()
    assert not (await console.at(f"{SETTINGS}{place}")).place.startswith("/ui/o/")


async def test_others_see_nothing(console: ConsoleScene) -> None:
    member, (_, stranger) = console.colleague(), console.stranger()
    for place in (*(f"{SETTINGS}{one}" for one in PLACES[1:]), "/sign-in/providers", "/sign-in/providers/codehost"):
        assert (await member.open(f"/ui/o/acme{place}")).status == 403, place
        assert (await stranger.open(f"/ui/o/acme{place}")).status == 403, place


async def test_an_admin_has_no_danger_and_no_billing(console: ConsoleScene) -> None:
    admin = console.colleague("admin")
    tab = await admin.open(f"/ui/o/acme{SETTINGS}")
    assert f"/ui/o/acme{SETTINGS}/looks" in tab.page.links
    assert f"/ui/o/acme{SETTINGS}/danger/delete" not in tab.page.links
    assert (await admin.open(f"/ui/o/acme{SETTINGS}/danger")).status == 403

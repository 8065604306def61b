"""`/ui/devices`: devices are shown, named and revoked."""

from datetime import timedelta

import pytest

from core.domain.identity.devices import LONGEST_NAME
from tests.http.pages.account.conftest import AccountPagesScene

PAGE = "/ui/devices"


async def test_a_device_with_the_reasons_of_its_risk(home: AccountPagesScene) -> None:
    device = home.device(
        name="Work laptop",
        browser="Firefox",
        browser_version="128.0",
        os="Linux",
        last_address="203.0.113.7",
        last_country="NO",
        last_city="Oslo",
        risk_score=0.8,
        risk_factors=["new_device", "failed_attempts", "of a later release"],
        trusted_until=home.postern.foundation.clock.now() + timedelta(days=3),
    )
    home.device(name="Old phone", last_country="SE", risk_score=0.2, risk_factors=["unknown_location"])
    listed = await home.open(PAGE)
    assert "Work laptop" in listed.page.text
    assert "Oslo, NO" in listed.page.text
    assert "Very unusual Trusted Revoke" in listed.page.text
    assert "SE Unusual" in listed.page.text
    shown = (await home.open(f"{PAGE}/{device}")).page.text
    assert "Firefox 128.0" in shown
    assert "Operating system Linux" in shown
    assert "203.0.113.7" in shown
    assert "Not required on this device until" in shown
    assert "was very unusual" in shown
    assert "It was the first sign-in from this device." in shown
    assert "There were failed sign-in attempts just before." in shown
    assert "of a later release" not in shown


async def test_a_device_of_which_little_is_known(home: AccountPagesScene) -> None:
    shown = (await home.open(f"{PAGE}/{home.device()}")).page.text
    assert "Browser or app Unknown" in shown
    assert "Location" not in shown
    assert "The last sign-in from this device was not unusual." in shown
    assert "Required at each sign-in if turned on" in shown


async def test_many_devices_stand_on_several_pages(home: AccountPagesScene) -> None:
    for number in range(21):
        home.device(name=f"Number {number}.")
    first = await home.open(PAGE)
    assert "Page 1 of 2" in first.page.text
    assert len([link for link in first.page.links if link.startswith(f"{PAGE}/") and not link.endswith("/revoke")]) == 20
    second = await home.open(f"{PAGE}?page=2")
    assert "Number 0." in second.page.text
    assert f"{PAGE}?page=1" in second.page.links
    beyond = await home.open(f"{PAGE}?page=9")
    assert "No devices" in beyond.page.text
    assert f"{PAGE}?page=1" in beyond.page.links
    for wrong in ("0", "-1", "x", "99999999999999999999"):
        assert (await home.open(f"{PAGE}?page={wrong}")).status == 400


async def test_a_device_gets_another_name(home: AccountPagesScene) -> None:
    device = home.device()
    await home.open(f"{PAGE}/{device}")
    form = home.form
    await home.send(name=" حاسوبي المحمول ")
    assert home.tab.place == f"{PAGE}/{device}?done=renamed"
    assert "Device renamed." in home.tab.page.text
    assert home.tab.page.inputs["name"]["value"] == "حاسوبي المحمول"
    await home.tabs.request("POST", form.action, {**form.fields, "name": "حاسوبي المحمول"})
    assert len(home.audited("user.device.renamed")) == 1


@pytest.mark.parametrize(("name", "says"), [("", "Enter a name"), ("x" * 101, str(LONGEST_NAME)), ("a\u202eb", "cannot be displayed")])
async def test_a_name_that_is_refused_brings_the_form_back(name: str, says: str, home: AccountPagesScene) -> None:
    device = home.device(name="Mine")
    await home.open(f"{PAGE}/{device}")
    await home.send(name=name)
    assert home.tab.status == 400
    assert says in home.tab.page.text
    assert home.tab.page.inputs["name"]["aria-invalid"] == "true"
    assert "Device: Mine" in home.tab.page.text


async def test_a_device_is_revoked_after_being_asked(home: AccountPagesScene) -> None:
    device = home.device(name="Old phone")
    there = home.elsewhere()
    home.people.change("update sessions set device_id = %s where id = %s", device, there.session)
    await home.open(f"{PAGE}/{device}/revoke")
    assert "Old phone" in home.tab.page.text
    assert home.lives(there)
    form = home.form
    await home.send()
    assert home.tab.place == f"{PAGE}?done=revoked"
    assert "Old phone" not in home.tab.page.text
    assert not home.lives(there)
    again = await home.tabs.request("POST", form.action, form.fields)
    assert again.header("location") == f"{PAGE}?done=revoked"
    assert len(home.audited("user.device.revoked")) == 1


async def test_the_device_that_is_in_use_stays(home: AccountPagesScene) -> None:
    device = home.device()
    home.people.change("update sessions set device_id = %s", device)
    shown = await home.open(f"{PAGE}/{device}")
    assert "You are using this device" in shown.page.text
    assert f"{PAGE}/{device}/revoke" not in shown.page.links
    assert "This device" in (await home.open(PAGE)).page.text
    await home.open(f"{PAGE}/{device}/revoke")
    await home.send()
    assert home.tab.status == 400
    assert "Sign out instead" in home.tab.page.text
    assert home.lives(home.ada)


async def test_somebody_elses_device_does_not_exist(home: AccountPagesScene) -> None:
    theirs = home.device(home.people.add("eve@example.org"), name="Guest's phone")
    revoked = home.device(revoked_at=home.postern.foundation.clock.now())
    token = (await home.open(PAGE)).page.forms[0].fields["form_token"]
    for device in (theirs, home.postern.foundation.ids.new(), "x"):
        for method, path in (("GET", ""), ("POST", ""), ("GET", "/revoke"), ("POST", "/revoke")):
            fields = {"form_token": token, "name": "Mine"} if method == "POST" else None
            answer = await home.tabs.request(method, f"{PAGE}/{device}{path}", fields)
            assert answer.status == 404, (device, method, path)
            assert b"Guest" not in answer.body
    assert (await home.open(f"{PAGE}/{revoked}")).status == 404
    assert home.people.rows("select name, revoked_at from devices where id = %s", theirs) == [{"name": "Guest's phone", "revoked_at": None}]


async def test_a_device_that_goes_while_it_is_named(home: AccountPagesScene) -> None:
    """The device that was read is gone when the renaming looks for it again."""
    device = home.device()
    await home.open(f"{PAGE}/{device}")
    home.people.change("update devices set revoked_at = now()")
    await home.send(name="Mine")
    assert home.tab.status == 404

"""What programs and people look for at the same address of every site."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from entrypoints.http.application import build_application
from entrypoints.settings import SettingsError, read
from tests.http.browsing import Tabs
from tests.http.client import Client
from tests.http.conftest import SETTINGS, postern_on
from tests.http.people import BASE_URL

SECURITY = "/.well-known/security.txt"


async def test_there_is_no_contact_until_the_operator_names_one(client: Client) -> None:
    assert (await client.get(SECURITY)).status == 404


async def test_the_contact_stands_in_the_form_of_rfc_9116(database_url: str, tmp_path: Path) -> None:
    contacts = "mailto:security@example.org, https://example.org/report"
    async with postern_on(database_url, tmp_path, {"POSTERN_SECURITY_CONTACT": contacts}) as postern:
        answer = await Client(build_application(postern, SETTINGS)).get(SECURITY)
    assert (answer.status, answer.header("content-type")) == (200, "text/plain; charset=utf-8")
    lines = answer.body.decode().splitlines()
    fields = [line.split(": ", 1) for line in lines]
    # The order of the contacts is the order of preference.
    assert [value for name, value in fields if name == "Contact"] == ["mailto:security@example.org", "https://example.org/report"]
    said = {name: value for name, value in fields if name != "Contact"}
    assert said.keys() == {"Expires", "Preferred-Languages", "Canonical"}
    assert len(lines) == 5
    assert said["Canonical"] == f"{BASE_URL}{SECURITY}"
    assert said["Preferred-Languages"] == "en, de, es, fr"
    expires = datetime.fromisoformat(said["Expires"])
    assert timedelta(days=30) < expires - datetime.now(UTC) < timedelta(days=365)


@pytest.mark.parametrize(
    "contact", ["security@example.org", "http://example.org", "mailto:x", "mailto:a@b\nExpires: 1", "tel:", "https://a b", ","]
)
def test_a_contact_that_is_none_stops_the_start(contact: str) -> None:
    with pytest.raises(SettingsError, match="POSTERN_SECURITY_CONTACT must be one or more of"):
        read({"POSTERN_SECURITY_CONTACT": contact})


async def test_password_managers_are_led_to_the_pages(client: Client) -> None:
    answer = await client.get("/.well-known/change-password")
    assert (answer.status, answer.header("location")) == (303, f"{BASE_URL}/ui/password")
    # They ask for this address first, to learn whether the site tells what it does not have.
    assert (await client.get("/.well-known/resource-that-should-not-exist-whose-status-code-should-not-be-200")).status == 404
    told = (await client.get("/.well-known/passkey-endpoints")).ok()
    assert told == {"enroll": f"{BASE_URL}/ui/passkeys/add", "manage": f"{BASE_URL}/ui/passkeys"}
    # Each leads somebody who is not signed in to the sign-in, and back.
    for page in ("/ui/password", "/ui/passkeys/add", "/ui/passkeys"):
        asked = await Tabs(client).request("GET", page)
        assert (asked.status, (asked.header("location") or "").startswith("/ui/sign-in?to=")) == (303, True)


async def test_crawlers_are_asked_to_stay_away_and_browsers_get_the_sign(client: Client) -> None:
    robots = await client.get("/robots.txt")
    assert (robots.header("content-type"), robots.body) == ("text/plain; charset=utf-8", b"User-agent: *\nDisallow: /\n")
    sign = await client.get("/favicon.ico")
    assert (sign.status, sign.header("content-type")) == (200, "image/x-icon")
    # An icon with one picture, which is a PNG.
    assert sign.body.startswith(b"\x00\x00\x01\x00\x01\x00\x20\x20")
    assert sign.body[22:30] == b"\x89PNG\r\n\x1a\n"

"""The signals of an application on pages: an owner turns them on after a preview, and sees its streams and what they were told."""

from typing import Any
from urllib.parse import urlencode

from tests.http.federation.signals.scene import STREAMS, delivery
from tests.http.pages.console.conftest import ConsoleScene
from tests.http.people import BASE_URL

EVENTS = ["session-revoked", "credential-change"]


async def turned_on(console: ConsoleScene, billing: str, events: list[str], hosts: str) -> None:
    await console.at(f"{billing}/signals/change")
    await console.submit(f"{billing}/signals/change", events=events, hosts=hosts)
    tab = await console.submit(f"{billing}/signals/change")
    assert tab.place == f"/ui/o/acme{billing}/signals?done=saved"


async def made_by_the_application(console: ConsoleScene, billing: str) -> str:
    """A stream, which the application makes with a secret of its own."""
    path = f"/api/organizations/acme/services/{billing.rpartition('/')[2]}"
    owner = await console.people.token(console.ada)
    service = (await console.client.get(path, token=owner)).ok()
    secret = (await console.client.post(f"{path}/client-secrets", token=owner)).ok(201)["client_secret"]
    asked = {"grant_type": "client_credentials", "client_id": service["client_id"], "client_secret": secret}
    headers = [("content-type", "application/x-www-form-urlencoded")]
    token = (await console.client.request("POST", "/auth/token", body=urlencode(asked).encode(), headers=headers)).ok()["access_token"]
    console.log.remember(secret, token)
    body: dict[str, Any] = {"delivery": delivery(8443), "description": "Sign-outs"}
    return str((await console.client.post(STREAMS, body, token=token)).ok(201)["stream_id"])


async def test_an_owner_sees_what_would_be_told_before_signals_are_on(console: ConsoleScene, billing: str) -> None:
    assert f"/ui/o/acme{billing}/signals" in (await console.at(f"{billing}/access")).page.links
    tab = await console.at(f"{billing}/signals")
    assert "Shared signals are off" in tab.page.text
    assert f"/ui/o/acme{billing}/signals/change" in tab.page.links
    await console.at(f"{billing}/signals/change")
    tab = await console.submit(f"{billing}/signals/change", events=EVENTS, hosts="127.0.0.1\r\napp.example.org")
    assert "Added for the application: Password, passkey or MFA changed" in tab.page.text
    assert "people who have confirmed their use of the application" in tab.page.text
    assert console.people.rows("select from signal_settings") == []
    tab = await console.submit(f"{billing}/signals/change")
    assert tab.place == f"/ui/o/acme{billing}/signals?done=saved"
    assert console.people.rows("select events, hosts from signal_settings") == [
        {"events": EVENTS, "hosts": ["127.0.0.1", "app.example.org"]}
    ]
    assert "The application has not created a stream" in tab.page.text
    for value in (BASE_URL, f"{BASE_URL}/.well-known/ssf-configuration", f"{BASE_URL}/ssf/streams", "ssf.manage"):
        assert f">{value}</code>".encode() in tab.shown.body, value
    assert "/docs/guides/apis-signals" in tab.page.links
    assert "Send verification event" not in tab.page.text
    await console.at(f"{billing}/signals/change")
    tab = await console.submit(f"{billing}/signals/change")
    assert tab.place.endswith("?done=unchanged")


async def test_what_is_no_host_is_said_at_its_field(console: ConsoleScene, billing: str) -> None:
    await console.at(f"{billing}/signals/change")
    tab = await console.submit(f"{billing}/signals/change", events=EVENTS, hosts="https://app.example.org")
    assert tab.status == 400
    assert console.fields(f"{billing}/signals/change").fields["hosts"] == "https://app.example.org"
    assert console.people.rows("select from signal_settings") == []


async def test_a_stream_shows_what_it_was_told_and_is_sent_a_verification(console: ConsoleScene, billing: str) -> None:
    await turned_on(console, billing, EVENTS, "127.0.0.1")
    stream = f"{billing}/signals/streams/{await made_by_the_application(console, billing)}"
    tab = await console.at(f"{billing}/signals")
    assert f"/ui/o/acme{stream}" in tab.page.links
    assert "127.0.0.1" in tab.page.text
    assert "Next: create a stream" not in tab.page.text
    tab = await console.submit(f"{stream}/verification")
    assert "Verification event sent" in tab.page.text
    console.people.change("update signal_streams set verified_at = verified_at - interval '10 seconds'")
    tab = await console.at(stream)
    assert "Sign-outs" in tab.page.text
    tab = await console.submit(f"{stream}/verification")
    assert "Verification event sent" in tab.page.text
    assert "Verification" in tab.page.text
    tab = await console.at(f"{stream}/deliveries")
    assert "Pending" in tab.page.text
    assert "Verification" not in (await console.at(f"{stream}/deliveries?delivered=true")).page.text
    # One in ten seconds.
    await console.at(stream)
    assert (await console.submit(f"{stream}/verification")).status == 429


async def test_streams_to_a_host_that_goes_are_named_before_they_end(console: ConsoleScene, billing: str) -> None:
    await turned_on(console, billing, EVENTS, "127.0.0.1")
    await made_by_the_application(console, billing)
    await console.at(f"{billing}/signals/change")
    tab = await console.submit(f"{billing}/signals/change", events=["session-revoked"], hosts="app.example.org")
    assert "The stream to 127.0.0.1 and its pending signals are deleted" in tab.page.text
    assert "No longer sent to the application: Password, passkey or MFA changed" in tab.page.text
    assert len(console.people.rows("select from signal_streams")) == 1
    await console.submit(f"{billing}/signals/change")
    assert console.people.rows("select from signal_streams") == []


async def test_a_change_leaves_what_somebody_else_changed_meanwhile(console: ConsoleScene, billing: str) -> None:
    """The endpoint sets everything at once, and the form showed the hosts of before."""
    await turned_on(console, billing, EVENTS, "127.0.0.1")
    await console.at(f"{billing}/signals/change")
    console.people.change("update signal_settings set hosts = '{app.example.org}'")
    await console.submit(f"{billing}/signals/change", events=["session-revoked"])
    await console.submit(f"{billing}/signals/change")
    assert console.people.rows("select events, hosts from signal_settings") == [{"events": EVENTS[:1], "hosts": ["app.example.org"]}]


async def test_turning_off_says_how_many_streams_end(console: ConsoleScene, billing: str) -> None:
    await turned_on(console, billing, EVENTS, "127.0.0.1")
    await made_by_the_application(console, billing)
    tab = await console.at(f"{billing}/signals/end")
    assert "1 stream of the application" in tab.page.text
    tab = await console.submit(f"{billing}/signals/end")
    assert "Shared signals are off" in tab.page.text
    assert console.people.rows("select from signal_settings") == []


async def test_members_see_signals_and_owners_alone_change_them_with_a_fresh_proof(console: ConsoleScene, billing: str) -> None:
    await turned_on(console, billing, EVENTS, "127.0.0.1")
    stream = f"{billing}/signals/streams/{await made_by_the_application(console, billing)}"
    member, (_, stranger) = console.colleague(), console.stranger()
    for page, status in (
        (f"{billing}/signals", 200),
        (stream, 200),
        (f"{stream}/deliveries", 403),
        (f"{billing}/signals/change", 403),
        (f"{billing}/signals/end", 403),
    ):
        assert (await member.open(f"/ui/o/acme{page}")).status == status, page
        assert (await stranger.open(f"/ui/o/acme{page}")).status == 403, page
    assert (await console.colleague("admin").open(f"/ui/o/acme{billing}/signals/change")).status == 403
    console.people.change("update sessions set proved_at = now() - interval '1 day' where user_id = %s", console.ada.user)
    for page in ("change", "end"):
        assert (await console.at(f"{billing}/signals/{page}")).place.startswith("/ui/sign-in"), page

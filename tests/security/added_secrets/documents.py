"""Reads the documents that show a connection, a custom provider and a mail server.

`test_added_secrets.py` runs this with the added fields. The name keeps it out of other runs.
"""

from typing import Any, Final

import msgspec

from ops.browser.page_reader import PageReader
from tests.http.browsing import Tabs
from tests.http.upstream.further.scene import PROVIDERS, FurtherScene

ACME: Final = "/api/organizations/acme"
SMTP: Final = {"host": "127.0.0.1", "port": 2525, "username": "acme", "password": "hunter2", "from_email": "it@acme.example"}
OF_ACME: Final = (
    *("directories", "directories/{own}", "directories/{own}/change", "directories/{own}/connection", "directories/{own}/exchanges"),
    *("settings/mail-server", "settings/mail-server/change", "settings/documents", "sign-in/providers"),
    *("audit-log", "audit-log/~csv", "audit-log/~lines"),
)
OF_PLATFORM: Final = (
    *("providers", "providers/discord", "providers/discord/change", "providers/discord/protocol", "settings/documents", "audit-log"),
)


async def test_every_document_is_read(scene: FurtherScene) -> None:
    ada, boss = scene.verified(), scene.resident(scene.acme, "owner", "boss")
    scene.speaker = boss
    own = await scene.own_provider()
    (await scene.request("POST", f"{ACME}/smtp", SMTP)).ok()
    scene.sits(word="own")
    assert (await scene.go(scene.browser(), "?org=acme", word=own)).status == 303
    assert [one["user_id"] for one in scene.identities()] == [ada.user]
    tabs = scene.signed_in(scene.root)
    await _activate(scene, tabs)
    for path, by, named, action in (
        (ACME, boss, b"Acme login", "organization.smtp.configured"),
        ("/api/platform", scene.root, b"discord", "platform.provider.activated"),
    ):
        exported = await scene.request("GET", f"{path}/configuration", by=by)
        assert named in exported.body
        # Without the password, a changed mail server is only planned.
        changed = exported.body.replace(b'"port":2525', b'"port":2526').replace(b'"position":0', b'"position":1')
        for act, text in (("plan", changed), ("apply", exported.body)):
            told = await scene.request("POST", f"{path}/configuration/{act}", {"document": msgspec.json.decode(text)["document"]}, by=by)
            assert told.status == 200, told.body
        entries: list[dict[str, Any]] = (await scene.request("GET", f"{path}/audit-log", by=by)).ok()["logs"]
        assert action in {one["action"] for one in entries}
        for entry in entries:
            (await scene.request("GET", f"{path}/audit-log/{entry['id']}", by=by)).ok()
        assert (await scene.request("GET", f"{path}/search?q=acme", by=by)).status == 200
    assert (await scene.request("GET", f"{ACME}/audit-log/event-types")).status == 200
    assert own.encode() in (await scene.request("GET", f"/api/privacy/export/{ada.user}", by=scene.root)).body
    browser = scene.signed_in(boss)
    for page in OF_ACME:
        assert (await browser.request("GET", f"/ui/o/acme/{page.format(own=own)}")).status == 200, page
    for page in OF_PLATFORM:
        assert (await tabs.request("GET", f"/ui/platform/{page}")).status == 200, page
    assert (await scene.unlimited.get("/metrics")).status == 200


async def _activate(scene: FurtherScene, tabs: Tabs) -> None:
    """A draft that is tested in a browser, and activated over the API."""
    await scene.has("discord", active=False)
    page = "/ui/test-provider/discord"
    left = await scene.send(tabs, PageReader((await tabs.request("GET", page)).body), page)
    assert (await tabs.request("GET", scene.fakes["discord"].consent(PageReader(left.body).refresh))).status == 200
    digest = (await scene.request("GET", f"{PROVIDERS}/discord", by=scene.root)).ok()["digest"]
    activated = await scene.request("POST", f"{PROVIDERS}/discord/activate", {"digest": digest}, by=scene.root)
    assert activated.ok()["state"] == "active"

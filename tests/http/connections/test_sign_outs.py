"""Sign-outs that a directory asks for."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
import trio

from adapters.backup_folders import BackupFolder
from adapters.crypto.key_ring import EncryptionKey
from adapters.postgres.backups.snapshots import server_version
from adapters.postgres.identity.upstream.connections import DirectorySessionRows
from adapters.saml.writing import write_logout
from core.domain.backups import DamageKind
from core.domain.saml import KeyPair, NameId, NameIdFormat, OurLogoutRequest
from core.domain.secrets import Secret
from entrypoints.cli import keys
from entrypoints.cli.backups.check import check_backup
from entrypoints.cli.backups.create import create
from entrypoints.cli.backups.proof import CheckReport
from entrypoints.failures import OK
from ops.stand_ins.fake_directory import SLO
from ops.stand_ins.saml import Pair, pair
from tests.entrypoints.backups.installation import with_programs_of
from tests.http.connections.scene import PATH, ConnectionScene
from tests.http.people import BASE_URL
from tests.meanwhile import meanwhile


def request(
    scene: ConnectionScene,
    provider: str,
    *,
    signer: Pair | None = None,
    index: str = "_s1",
    ago: int = 0,
    issuer: str = "",
    relay_state: str | None = "r",
) -> str:
    signed_by = signer or scene.directory.signer
    message = OurLogoutRequest(
        id=f"_{uuid4().hex}",
        issuer=issuer or scene.directory.issuer,
        destination=f"{BASE_URL}/saml/sp/{provider}/slo",
        issued_at=datetime.now(UTC) - timedelta(seconds=ago),
        name_id=NameId(text=scene.directory.subject, format=NameIdFormat.PERSISTENT),
        session_index=index,
    )
    written = write_logout(message, KeyPair(signed_by.certificate, Secret(signed_by.key)), relay_state=relay_state, redirect=True)
    parts = urlsplit(written)
    return f"{parts.path}?{parts.query}"


async def test_a_signed_request_ends_the_sessions_that_the_directory_has_opened_and_no_others(scene: ConnectionScene) -> None:
    provider = await scene.active()
    ada = scene.verified()
    tabs, second = scene.browser(), scene.browser()
    await scene.arrive(tabs, provider)
    scene.directory.session_index = "_s2"
    await scene.arrive(second, provider)
    own = scene.signed_in(scene.people.session_of(ada))
    for wrong in (
        request(scene, provider, signer=pair("somebody else")),
        request(scene, provider, issuer="https://another.example"),
        request(scene, provider, ago=3600),
    ):
        assert (await scene.browser().request("GET", wrong)).status == 400
        assert await scene.who(tabs) == ada.user
    answer = await scene.browser().request("GET", request(scene, provider, index="_s1"))
    assert answer.status == 302
    assert (answer.header("location") or "").startswith(f"{SLO}?SAMLResponse=")
    assert [await scene.who(one) for one in (tabs, second, own)] == [None, ada.user, ada.user]
    # The name of another person ends nothing.
    scene.directory.subject = "p-2"
    assert (await scene.browser().request("GET", request(scene, provider, index="_s2"))).status == 302
    assert await scene.who(second) == ada.user
    await scene.keep_recorded()
    listed = (await scene.request("GET", f"{PATH}/{provider}/exchanges")).ok()["exchanges"]
    logouts = [(one["succeeded"], one["times"]) for one in listed if one["kind"] == "logout"]
    # What anybody may send is counted: a signature of somebody else, and an old request.
    assert sorted(logouts) == [(False, 1), (False, 2), (True, 1), (True, 1)]


async def test_a_sign_out_leaves_backups_and_the_rotation_of_keys_whole(
    scene: ConnectionScene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider, tabs = await scene.active(), scene.browser()
    scene.verified()
    await scene.arrive(tabs, provider)
    assert (await scene.browser().request("GET", request(scene, provider))).status == 302
    assert await scene.who(tabs) is None
    assert scene.people.rows("select from connection_answers where assertion_digest is not null and waits_until <= now()")
    settings = scene.postern.settings
    assert settings.database_url is not None
    url = settings.database_url.reveal()
    with_programs_of(await server_version(url), monkeypatch)
    folder = BackupFolder(tmp_path / "backups" / (await create(settings, tmp_path / "backups")).id)
    report = CheckReport(folder.path.name, as_json=True)
    await check_backup(settings, folder, report, scratch=url, work=tmp_path)
    # The callers of the scene have sessions without a refresh token, which people never have.
    assert [one for one in report.damages if one.kind is not DamageKind.TIES] == []
    # Under a new first key, everything is sealed again.
    assert settings.encryption_keys is not None
    ring = f"{EncryptionKey('next', b'n' * 32).line()},{settings.encryption_keys.reveal()}"
    assert await keys._reencrypt_now(replace(settings, encryption_keys=Secret(ring)), False) == OK


async def test_a_request_is_taken_once(scene: ConnectionScene) -> None:
    provider = await scene.active()
    ada, tabs = scene.verified(), scene.browser()
    await scene.arrive(tabs, provider)
    once = request(scene, provider)
    statuses: list[int] = []

    async def send() -> None:
        statuses.append((await scene.unlimited.request("GET", once)).status)

    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(send)
    assert Counter(statuses) == {302: 1, 400: 49}
    assert await scene.who(tabs) is None
    # The person signs in again, and whoever kept the request cannot end that.
    again = scene.browser()
    await scene.arrive(again, provider)
    assert (await scene.browser().request("GET", once)).status == 400
    assert await scene.who(again) == ada.user


async def test_a_request_that_comes_again_ends_nothing(scene: ConnectionScene) -> None:
    provider = await scene.active()
    ada, tabs, again = scene.verified(), scene.browser(), scene.browser()
    await scene.arrive(tabs, provider)
    once = request(scene, provider)
    assert (await scene.browser().request("GET", once)).status == 302
    await scene.arrive(again, provider)
    assert (await scene.browser().request("GET", once)).status == 400
    assert [await scene.who(one) for one in (tabs, again)] == [None, ada.user]
    await scene.keep_recorded()
    listed = (await scene.request("GET", f"{PATH}/{provider}/exchanges")).ok()["exchanges"]
    assert sorted(one["reason"] for one in listed if one["kind"] == "logout") == ["", "it was already used"]


async def test_a_request_ends_no_session_that_is_younger(scene: ConnectionScene) -> None:
    """Somebody has held it back for some minutes."""
    provider = await scene.active()
    ada, old, new = scene.verified(), scene.browser(), scene.browser()
    await scene.arrive(old, provider)
    scene.people.change("update directory_sessions set issued_at = issued_at - interval '10 minutes'")
    held_back = request(scene, provider, ago=300)
    await scene.arrive(new, provider)
    assert (await scene.browser().request("GET", held_back)).status == 302
    assert [await scene.who(one) for one in (old, new)] == [None, ada.user]


async def test_a_session_that_ends_meanwhile_is_not_ended_once_more(scene: ConnectionScene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The person signs out in one browser while the directory asks. The other session ends, and the record tells of that one alone."""
    provider = await scene.active()
    ada, first, second = scene.verified(), scene.browser(), scene.browser()
    await scene.arrive(first, provider)
    (gone,) = scene.people.rows("select id from sessions where user_id = %s", ada.user)
    await scene.arrive(second, provider)
    revoke = "update sessions set revoked_at = now() where id = %s"
    meanwhile(monkeypatch, DirectorySessionRows, "of_name", lambda: scene.people.change(revoke, gone["id"]))
    assert (await scene.browser().request("GET", request(scene, provider))).status == 302
    assert [await scene.who(one) for one in (first, second)] == [None, None]
    (told,) = scene.audited("user.logout")
    assert told["details"]["session_id"] != str(gone["id"])
    await scene.keep_recorded()
    listed = (await scene.request("GET", f"{PATH}/{provider}/exchanges")).ok()["exchanges"]
    assert [one["succeeded"] for one in listed if one["kind"] == "logout"] == [True]


async def test_a_session_from_a_process_of_the_release_before_counts_from_its_beginning(scene: ConnectionScene) -> None:
    provider = await scene.active()
    ada, tabs = scene.verified(), scene.browser()
    await scene.arrive(tabs, provider)
    scene.people.change("update directory_sessions set issued_at = null")
    assert (await scene.browser().request("GET", request(scene, provider, ago=60))).status == 302
    assert await scene.who(tabs) == ada.user
    assert (await scene.browser().request("GET", request(scene, provider))).status == 302
    assert await scene.who(tabs) is None


async def test_a_draft_ends_nobodys_session(scene: ConnectionScene) -> None:
    """Whoever may change the settings could name a key of theirs. Nobody but a test uses what no owner has activated."""
    provider = await scene.active()
    ada, tabs = scene.verified(), scene.browser()
    await scene.arrive(tabs, provider)
    scene.directory.signer = pair("somebody else")
    assert (await scene.fill(provider)).ok()["state"] == "draft"
    assert (await scene.browser().request("GET", request(scene, provider))).status == 404
    assert await scene.who(tabs) == ada.user

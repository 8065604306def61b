"""Nothing leaves the installation any more: metrics, the log and the doctor say so, without a line or a series for each receiver."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest
import trio

from actors.watchers import OutboundWatcher
from core.domain.record.deliveries import ReceiverKind
from core.usecases.outbound_reach import ReceiversLately
from entrypoints import checks
from entrypoints.bootstrap import Postern
from entrypoints.checks import Verdict
from ops.stand_ins.fake_remote_system import FakeRemoteSystem
from tests.conftest import CapturedLog
from tests.http.client import Client
from tests.http.conftest import postern_on
from tests.http.federation.provisioning.scene import ProvisioningScene
from tests.http.people import People
from tests.http.signing_in import unlimited
from tests.http.tenancy.test_siem import SiemScene
from tests.http.tenancy.test_siem import url as receiver_url
from tests.http.tenancy.test_webhooks import WebhookScene
from tests.patience import PATIENCE
from tests.receiver import Receiver, answering, receiving

PLACES: Final = "http://127.0.0.1:8443/{}"


@pytest.fixture
async def proxy() -> AsyncIterator[Receiver]:
    async with receiving(answering(403)) as refusing:
        yield refusing


@pytest.fixture
async def scene(proxy: Receiver, database_url: str, tmp_path: Path, people: People, log: CapturedLog) -> AsyncIterator[WebhookScene]:
    """Whatever organizations have sent to their receivers goes by a proxy that refuses it."""
    log.remember("fig-password")
    more = {"POSTERN_OUTBOUND_PROXY": f"http://me:fig-password@127.0.0.1:{proxy.port}"}
    async with postern_on(database_url, tmp_path / "behind", more) as opened:
        yield WebhookScene(opened, people, unlimited(opened), log)


@pytest.fixture
def siem(postern: Postern, people: People, log: CapturedLog) -> SiemScene:
    return SiemScene(postern, people, unlimited(postern), log)


@pytest.fixture
def far() -> Iterator[FakeRemoteSystem]:
    with FakeRemoteSystem() as made:
        yield made


@pytest.fixture
def provisioning(postern: Postern, people: People, client: Client, log: CapturedLog, far: FakeRemoteSystem) -> ProvisioningScene:
    log.remember(far.token)
    return ProvisioningScene(postern, people, client, log, far=far)


async def fails(scene: WebhookScene, attempts: int) -> None:
    """So many attempts have failed."""
    with trio.fail_after(PATIENCE):
        while scene.people.rows("select sum(attempts)::int as attempts from webhook_deliveries") != [{"attempts": attempts}]:
            await trio.sleep(0.01)


async def test_a_closed_way_out_is_told(scene: WebhookScene, log: CapturedLog) -> None:
    postern = scene.postern
    for number, of in enumerate(("acme", "acme", "globex")):
        await scene.made(PLACES.format(number), of=of)
    watcher = OutboundWatcher(postern.foundation.outbound_reach, postern.foundation.hook_waits, postern.foundation.metrics)
    async with scene.dispatching():
        await scene.happens()
        await scene.happens(to=scene.globex.id)
        await fails(scene, 3)
        scene.due_again()
        await fails(scene, 6)
    watcher.look()
    watcher.look()
    page = postern.foundation.metrics.render().decode()
    assert 'sso_outbound_receivers{kind="webhook",outcome="failed"} 3.0' in page
    assert 'sso_outbound_receivers{kind="webhook",outcome="reached"} 0.0' in page
    assert 'sso_outbound_organizations{outcome="failed"} 2.0' in page
    # No tenant has a series of its own.
    assert page.count("\nsso_outbound_") == 12
    # Six failures, one line. The second look has nothing new to say.
    (line,) = log.events("deliveries_failing")
    assert (line["level"], line["webhook"]) == ("warning", {"failed": 6, "received": 0, "failing_receivers": 3})
    assert [one for one in log.entries if one["level"] == "warning" and one["event"] != "deliveries_failing"] == []
    found = await checks.receivers(postern.settings, postern)
    assert found.verdict is Verdict.WARN
    assert found.text.startswith("failing: 3 of 3 webhooks (2 of the organizations); by the proxy http://me:***@127.0.0.1:")


async def test_one_receiver_that_fails_is_its_organization_s_matter(scene: WebhookScene) -> None:
    found = await checks.receivers(scene.postern.settings, scene.postern)
    assert (found.verdict, found.is_used, found.text) == (Verdict.OK, False, "no organization has any")
    made = await scene.made(PLACES.format(1))
    await scene.made(PLACES.format(2))
    found = await checks.receivers(scene.postern.settings, scene.postern)
    assert (found.verdict, found.text.partition(";")[0]) == (Verdict.OK, "2, none fails")
    scene.people.change("update webhooks set failing_since = now() where id = %s", made["id"])
    found = await checks.receivers(scene.postern.settings, scene.postern)
    assert (found.verdict, found.text.partition(";")[0]) == (Verdict.OK, "failing: 1 of 2 webhooks (1 of the organizations)")
    # Nothing is sent to what is paused, or to those of a suspended organization.
    scene.people.change("update webhooks set is_active = false where id = %s", made["id"])
    found = await checks.receivers(scene.postern.settings, scene.postern)
    assert (found.verdict, found.text.partition(";")[0]) == (Verdict.OK, "1, none fails")
    scene.people.change("update all_organizations set status = 'suspended' where slug = 'acme'")
    assert not (await checks.receivers(scene.postern.settings, scene.postern)).is_used


async def test_batches_for_a_siem_are_counted_too(siem: SiemScene) -> None:
    await siem.happens()
    async with receiving(answering(503)) as receiver:
        await siem.configured(receiver_url(receiver))
        async with siem.forwarding():
            await siem.failed()
    reached, attempts = siem.postern.foundation.outbound_reach.look()
    assert reached.receivers[ReceiverKind.SIEM] == ReceiversLately(0, 1)
    assert attempts[ReceiverKind.SIEM].failed


async def test_runs_of_provisioning_are_counted_too(provisioning: ProvisioningScene, far: FakeRemoteSystem) -> None:
    reach = provisioning.postern.foundation.outbound_reach
    provisioning.active()
    far.token = "another-token-1c9f2e"
    await provisioning.step()
    assert reach.look()[0].receivers[ReceiverKind.PROVISIONING] == ReceiversLately(0, 1)


async def test_a_system_that_asks_for_a_rest_does_not_fail(provisioning: ProvisioningScene, far: FakeRemoteSystem) -> None:
    provisioning.active()
    far.throttles_each, far.retry_after = 1, "900"
    await provisioning.step()
    assert provisioning.postern.foundation.outbound_reach.look()[1] == {}

"""An installation whose platform owner adds further providers."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from entrypoints.bootstrap import Postern
from ops.stand_ins.fake_providers import FakeCodeHost, FakeOfficeSuite, FakeProvider, FakeWebSuite
from tests.conftest import CapturedLog
from tests.http.people import People
from tests.http.upstream.further.preset_providers import (
    FakeApple,
    FakeDiscord,
    FakeFacebook,
    FakeGitLab,
    FakeLinkedIn,
    FakeProfiles,
    FakeSlack,
)
from tests.http.upstream.further.scene import FurtherScene
from tests.http.upstream.scene import Fakes


@pytest.fixture
def fakes() -> Iterator[Fakes]:
    made = {
        "codehost": FakeCodeHost(client_id="codehost-client"),
        "websuite": FakeWebSuite(client_id="websuite-client"),
        "officesuite": FakeOfficeSuite(client_id="officesuite-client"),
        "own": FakeProvider(client_id="own-client", client_secret="own-provider-secret-77"),
        "apple": FakeApple(client_id="com.example.web"),
        "gitlab": FakeGitLab(client_id="gitlab-client"),
        "linkedin": FakeLinkedIn(client_id="linkedin-client"),
        "slack": FakeSlack(client_id="slack-client"),
        "discord": FakeDiscord(client_id="discord-client"),
        "facebook": FakeFacebook(client_id="facebook-client"),
        "profiles": FakeProfiles(client_id="profiles-client"),
        "company": FakeProvider(client_id="openid-client", client_secret="openid-provider-secret-78"),
    }
    with ExitStack() as running:
        yield {name: running.enter_context(fake) for name, fake in made.items()}


@pytest.fixture
def scene(postern: Postern, people: People, client: object, log: CapturedLog, fakes: Fakes) -> FurtherScene:
    return FurtherScene(postern, people, client, log, fakes)  # type: ignore[arg-type]

"""Tests of a provider's settings. A test goes the way of a sign-in and signs nobody in: it ends on a page with every check."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from core.domain.identifiers import ConnectionTestId, ManagementKeyId, OrganizationId, SessionId, SetupLinkId, UpstreamProviderId
from core.domain.identity.upstream.saml.examinations import CheckState, Examination
from core.domain.json import Json
from core.frozen import Frozen


class TestStarter(Frozen, kw_only=True):
    """Who has started a test, by one of these. It ends with that, and with the right of the person behind it."""

    session: SessionId | None = None
    key: ManagementKeyId | None = None
    link: SetupLinkId | None = None


class NewConnectionTest(Frozen, kw_only=True):
    id: ConnectionTestId
    provider: UpstreamProviderId
    digest: bytes
    """Of the state, which the address of the test contains."""
    settings_digest: bytes
    starter: TestStarter
    created_at: datetime
    expires_at: datetime


class ConnectionTest(Frozen, kw_only=True):
    id: ConnectionTestId
    provider: UpstreamProviderId
    organization: OrganizationId
    organization_slug: str
    name: str
    """The provider's."""
    digest: bytes
    browser_digest: bytes | None
    settings_digest: bytes
    finished_at: datetime | None
    succeeded: bool | None
    sealed_result: bytes | None

    def is_of(self, browser: bytes) -> bool:
        return self.browser_digest == browser


class TestedCheck(Frozen, kw_only=True):
    """One line of the page of a test."""

    name: str
    state: CheckState
    told: str = ""
    came: str = ""
    expected: str = ""
    mend: str = ""


class TestResult(Frozen, kw_only=True):
    checks: Sequence[TestedCheck]

    @property
    def succeeded(self) -> bool:
        return all(one.state is not CheckState.FAILED for one in self.checks) and self.checks != ()

    def stored(self) -> Mapping[str, Json]:
        return {
            "checks": [
                {
                    "name": one.name,
                    "state": one.state.value,
                    "told": one.told,
                    "came": one.came,
                    "expected": one.expected,
                    "mend": one.mend,
                }
                for one in self.checks
            ]
        }


def restored_result(kept: Mapping[str, Any]) -> TestResult:
    return TestResult(checks=[TestedCheck(**{**one, "state": CheckState(one["state"])}) for one in kept["checks"]])


def result_of(found: Examination) -> TestResult:
    return TestResult(
        checks=[
            TestedCheck(name=one.name.value, state=one.state, told=one.words, came=one.came, expected=one.expected, mend=one.mend)
            for one in found.checks
        ]
    )


def result_context(test: ConnectionTestId) -> str:
    return f"connection_tests.sealed_result:{test}"

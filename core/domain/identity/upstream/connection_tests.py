"""Diagnostics of an enterprise connection: its tests, its recorder, and the checks of a SAML response."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Final
from uuid import uuid5

from core.domain.formats import Json, fields_as_json
from core.domain.identifiers import (
    ConnectionExchangeId,
    ConnectionTestId,
    ManagementKeyId,
    OrganizationId,
    SessionId,
    SetupLinkId,
    UpstreamProviderId,
)
from core.domain.identity.upstream.saml.assertions import Asserting
from core.domain.saml import ID, LONGEST_ID
from core.frozen import Frozen, names_of, replace


class CheckName(StrEnum):
    """The checks, in the order in which they are told."""

    WELL_FORMED = "well_formed"
    """A response of SAML 2.0, in strict XML of bounded size."""
    STATUS = "status"
    """The directory says that the person has signed in."""
    IN_RESPONSE_TO = "in_response_to"
    """The answer is for the request that this browser began."""
    DESTINATION = "destination"
    """The directory sent the answer to this connection's address."""
    ISSUER = "issuer"
    """The directory is the one that the connection names."""
    ENCRYPTION = "encryption"
    """One of our keys opens what is encrypted, and the method is good. Passed for an answer that is not encrypted."""
    SIGNATURE = "signature"
    """The answer or its assertion is signed, in SAML's form, by a certificate that the connection knows."""
    ALGORITHM = "algorithm"
    """Signature and digest are by SHA-256 or better, under a strong key."""
    CERTIFICATE = "certificate"
    """The certificate that signed is valid today."""
    RECIPIENT = "recipient"
    """The assertion may be used at this connection's address."""
    AUDIENCE = "audience"
    """The assertion is for our entity id."""
    TIMES = "times"
    """The assertion is valid now, by both clocks."""
    APPLICATIONS = "applications"
    """Whether the directory lets us sign the person in to applications. Never fails: our own pages stay open."""
    AUTHENTICATION = "authentication"
    """The directory says when and how the person signed in there, and that was recent enough."""
    SUBJECT = "subject"
    """The name is there by which the connection recognises people."""
    ADDRESS = "address"
    """An email address is there."""
    ATTRIBUTES = "attributes"
    """The attributes that the mapping names are there. Never fails: what is missing is told."""
    ONE_USE = "one_use"
    """Nobody has used the assertion before. The store decides this when the answer counts, see `Examination.counted`."""


class CheckState(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    NOT_REACHED = "not_reached"


class Check(Frozen, kw_only=True):
    name: CheckName
    state: CheckState
    fault: str = ""
    """The kind of failure, for programs and translations: a word like `unknown_certificate`. Empty unless the check failed."""
    words: str = ""
    """What happened, in one or two sentences for an administrator."""
    came: str = ""
    """What the answer said, cut to a bound and without control characters. The directory or an attacker has written it."""
    expected: str = ""
    mend: str = ""
    """The change that helps, and where to make it. Empty unless the check failed."""
    personal: bool = False
    """`came` tells something about a person. The test page shows it; the recorder keeps the check `without_person`."""

    def without_person(self) -> "Check":
        return replace(self, came="", personal=False) if self.personal else self

    def stored(self) -> Mapping[str, Json]:
        return fields_as_json(self, names_of(self))


def restored_examination(kept: Mapping[str, Any]) -> Check:
    """Reads the form that `Check.stored` made."""
    return Check(**{**kept, "name": CheckName(kept["name"]), "state": CheckState(kept["state"])})


class Examination(Frozen, kw_only=True):
    """The checks of a SAML response, each named and with its result in words. A sign-in takes the assertion or the first check that failed;
    the test page and the recorder show the list. It never contains signatures, certificates, ciphertexts or keys.
    """

    checks: Sequence[Check]
    """One for each `CheckName`, in that order."""
    asserting: Asserting | None
    """What a sign-in takes. None unless every check passed but the last, `ONE_USE`."""
    response_id: str = ""
    """The id of the answer, if it could be read."""
    in_response_to: str = ""
    """The id of the request that the answer names, whether or not it was ours."""
    status: str = ""
    """The last part of the lowest status code, such as `NoPassive`. Nobody vouches for it: a failure need not be signed."""
    certificate: str = ""
    """The SHA-256 fingerprint of the certificate that verified the signature. Empty if none did."""
    encrypted: bool = False

    @property
    def failed(self) -> Check | None:
        """The first check that failed."""
        return next((one for one in self.checks if one.state is CheckState.FAILED), None)

    def check(self, name: CheckName) -> Check:
        return next(one for one in self.checks if one.name is name)

    def with_asserting(self, asserting: Asserting) -> "Examination":
        return replace(self, asserting=asserting)

    def counted(self, *, first: bool) -> "Examination":
        """The examination after the store has taken the assertion's id. `first` is False when the id was there: then nobody signs in."""
        if self.asserting is None:
            return self
        used = (
            Check(name=CheckName.ONE_USE, state=CheckState.PASSED, words="The assertion was not used before.")
            if first
            else Check(
                name=CheckName.ONE_USE,
                state=CheckState.FAILED,
                fault="used_before",
                words="This assertion was already used. It can be used once.",
                mend="Begin the sign-in again. If nobody sent the same answer twice on purpose, somebody may have copied it.",
            )
        )
        checks = tuple(used if one.name is CheckName.ONE_USE else one for one in self.checks)
        return replace(self, checks=checks, asserting=self.asserting if first else None)


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
    """A test of a provider's settings. A test takes the way of a sign-in and signs nobody in: it ends on a page with every check."""

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

    @property
    def word(self) -> str:
        """The state as people read it. A check that passes and yet says what to do is a warning."""
        return "warned" if self.state is CheckState.PASSED and self.mend else self.state.value


class TestResult(Frozen, kw_only=True):
    checks: Sequence[TestedCheck]

    @property
    def succeeded(self) -> bool:
        return all(one.state is not CheckState.FAILED for one in self.checks) and self.checks != ()

    def stored(self) -> Mapping[str, Json]:
        return {"checks": [fields_as_json(one, names_of(one)) for one in self.checks]}


_SHARED: Final = tuple(name for name in names_of(TestedCheck) if name in names_of(Check))
"""The fields of a check that the page of a test has, too."""


def restored_result(kept: Mapping[str, Any]) -> TestResult:
    return TestResult(checks=[TestedCheck(**{**one, "state": CheckState(one["state"])}) for one in kept["checks"]])


def result_of(found: Examination) -> TestResult:
    return TestResult(checks=[TestedCheck(told=one.words, **{name: getattr(one, name) for name in _SHARED}) for one in found.checks])


def result_context(test: ConnectionTestId) -> str:
    return f"connection_tests.sealed_result:{test}"


MOST_EXCHANGES: Final = 50
_REFERENCE_LENGTH: Final = 10


class ConnectionExchangeKind(StrEnum):
    SIGN_IN = "sign_in"
    TEST = "test"
    LOGOUT = "logout"
    ASSERTION = "assertion"
    """An identity assertion that was refused."""


class ConnectionExchange(Frozen, kw_only=True):
    """A recorded response of the identity provider, and why it was refused. It contains checks, IDs and reasons, and no data about a
    user.
    """

    id: ConnectionExchangeId
    provider: UpstreamProviderId
    kind: ConnectionExchangeKind
    succeeded: bool
    fault: str = ""
    """The kind of failure, in one word for programs."""
    reason: str = ""
    """The failure in words."""
    advice: str = ""
    checks: Sequence[Check] = ()
    """What was checked, without what tells about a person."""
    certificate: str = ""
    """The fingerprint of the certificate that signed the answer."""
    message: str = ""
    in_response_to: str = ""
    created_at: datetime
    """For a counted one the first time."""
    times: int = 1
    last_at: datetime | None = None
    """The last time of a counted one, and None for any other. What anybody may send, without a sign-in or a signature, is counted in one
    entry of its kind, whose id is `counted_id`, so that a stranger does not push out the others. Refused assertions are counted by their
    faults.
    """

    @property
    def reference(self) -> str:
        return reference_of(self.id)


def counted_id(provider: UpstreamProviderId, kind: ConnectionExchangeKind) -> ConnectionExchangeId:
    return ConnectionExchangeId(uuid5(provider, kind.value))


def joined(earlier: ConnectionExchange, later: ConnectionExchange) -> ConnectionExchange:
    """Both in one entry, with the reason of the later one."""
    return replace(later, created_at=earlier.created_at, times=earlier.times + later.times)


def reference_of(exchange: ConnectionExchangeId) -> str:
    """The end of the id, which is random: short enough to read aloud."""
    return exchange.hex[-_REFERENCE_LENGTH:].upper()


def kept_id(text: str) -> str:
    """The id as it is stored. A text that is no valid id could say anything about anybody."""
    return text[:LONGEST_ID] if ID.fullmatch(text) else ""


def of_examination(
    exchange: ConnectionExchangeId, provider: UpstreamProviderId, kind: ConnectionExchangeKind, found: Examination, now: datetime
) -> ConnectionExchange:
    failed = found.failed
    return ConnectionExchange(
        id=exchange,
        provider=provider,
        kind=kind,
        succeeded=failed is None,
        fault="" if failed is None else failed.fault,
        reason="" if failed is None else failed.without_person().words,
        advice="" if failed is None else failed.mend,
        # Processes of the release before do not know the check of applications, so only one that found something is kept.
        checks=[
            one.without_person()
            for one in found.checks
            if one.state is not CheckState.NOT_REACHED and (one.name is not CheckName.APPLICATIONS or one.came)
        ],
        certificate=found.certificate,
        message=kept_id(found.response_id),
        in_response_to=kept_id(found.in_response_to),
        created_at=now,
    )

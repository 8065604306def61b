"""Validates a SAML response. The adapter reads XML and verifies signatures; these functions compare what it read with what is expected."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from core.domain.identity.upstream.connection_tests import Check, CheckName, CheckState, Examination
from core.domain.identity.upstream.directory_visits import METHODS_OF_MICROSOFT
from core.domain.identity.upstream.saml import faults
from core.domain.identity.upstream.saml.assertions import TOLERANCE, Asserting, DirectoryAssertion, Expected, SigningCertificate
from core.domain.identity.upstream.saml.faults import passed, shown
from core.domain.identity.upstream.saml.received import (
    AnswerProof,
    ReceivedAssertion,
    ReceivedConfirmation,
    ReceivedProxying,
    ReceivedResponse,
    read_person,
)
from core.domain.saml import Status, moment

Checks = Mapping[CheckName, Check]
# The context of two factors, by the word of research and education that directories agree on.
TWO_FACTORS_OF_DIRECTORIES: Final = "https://refeds.org/profile/mfa"
# The store forgets an assertion then. A repeat would also need its request, which lives for minutes.
_LONGEST_REMEMBERED: Final = timedelta(days=1)


def examination(checks: Checks, received: ReceivedResponse | None = None, proof: AnswerProof | None = None) -> Examination:
    """The examination of an answer that signs nobody in."""
    told = tuple(checks.get(name, Check(name=name, state=CheckState.NOT_REACHED)) for name in CheckName)
    return Examination(
        checks=told,
        asserting=None,
        response_id="" if received is None else shown(received.id),
        in_response_to="" if received is None else shown(received.in_response_to or ""),
        status="" if received is None else _lowest_status(received),
        certificate="" if proof is None else proof.fingerprint,
        encrypted=received is not None and received.encrypted,
    )


def judged(checks: Iterable[Check]) -> Checks:
    """One check for each name. A name that failed once has failed."""
    found: dict[CheckName, Check] = {}
    for one in checks:
        if one.name not in found or found[one.name].state is not CheckState.FAILED:
            found[one.name] = one
    return found


def judge_response(received: ReceivedResponse, expected: Expected) -> Checks:
    """The outside of the answer."""
    return judged(
        (
            passed(CheckName.WELL_FORMED, "The answer is a response of SAML 2.0."),
            _status(received),
            _request(received.in_response_to, expected),
            _destination(received, expected),
            *_outer_issuer(received, expected),
        )
    )


def is_worth_verifying(checks: Checks) -> bool:
    """Whether the answer says that somebody has signed in, and for a request of ours. Anybody can send other answers, and verifying them is
    work.
    """
    return all(checks[name].state is CheckState.PASSED for name in (CheckName.WELL_FORMED, CheckName.STATUS, CheckName.IN_RESPONSE_TO))


def judge_proof(proof: AnswerProof, expected: Expected) -> Checks:
    """How the answer was verified."""
    named = f"SHA-256 {proof.fingerprint}, valid until {_detailed(proof.valid_until)}"
    if expected.now >= proof.valid_until:
        certificate = faults.CERTIFICATE_ENDED.found(came=named, expected=f"a certificate that is valid on {_detailed(expected.now)}")
    elif expected.now < proof.valid_from - TOLERANCE:
        since = f"SHA-256 {proof.fingerprint}, valid from {_detailed(proof.valid_from)}"
        certificate = faults.CERTIFICATE_NOT_YET.found(came=since, expected=f"a certificate that is valid on {_detailed(expected.now)}")
    else:
        certificate = passed(CheckName.CERTIFICATE, "The signing certificate is known and valid.", came=named)
    how = (
        f"It is encrypted with {proof.encryption}, and Postern's key decrypts it."
        if proof.encryption
        else "The assertion is not encrypted."
    )
    return judged(
        (
            passed(CheckName.ENCRYPTION, how),
            passed(CheckName.SIGNATURE, f"The signature of {proof.what} is valid."),
            passed(CheckName.ALGORITHM, f"It is signed with {proof.algorithm}."),
            certificate,
        )
    )


def judge_assertion(
    outside: Checks, said: ReceivedAssertion, received: ReceivedResponse, proof: AnswerProof, expected: Expected
) -> Examination:
    """The examination of an answer whose content is verified. `outside` are the checks of everything else."""
    person, named = read_person(said, expected)
    statement = said.statement
    checks = judged(
        (
            *outside.values(),
            _issuer(said.issuer, expected),
            *_confirmation(said.confirmations, expected),
            _audience(said, expected),
            *_times(said, expected),
            _applications(said, expected),
            _authentication(said, expected),
            *named,
        )
    )
    told = examination(checks, received, proof)
    if told.failed is not None or person is None or statement is None:
        return told
    ends = [_moment(one.not_on_or_after) for one in said.confirmations] + [_moment(said.conditions.not_on_or_after)]
    assertion = DirectoryAssertion(
        id=said.id,
        usable_until=min([end for end in ends if end is not None] + [expected.now + _LONGEST_REMEMBERED]) + TOLERANCE,
        issuer=said.issuer,
        name_id=said.name_id,
        attributes=said.attributes,
        authenticated_at=_moment(statement.authn_instant) or expected.now,
        session_index=statement.session_index,
        session_ends_at=_moment(statement.session_not_on_or_after),
        context_class=statement.context_class,
        signed_by=SigningCertificate(fingerprint=proof.fingerprint, valid_until=proof.valid_until),
        encrypted=proof.encryption != "",
        issued_at=_moment(said.issue_instant),
        refuses_applications=restricts_proxying(said.conditions.proxies, expected.entity_id),
    )
    return told.with_asserting(Asserting(assertion=assertion, person=person))


def _status(received: ReceivedResponse) -> Check:
    if received.status == Status.SUCCESS.value:
        return passed(CheckName.STATUS, "The identity provider states that the person signed in.")
    codes = " / ".join(filter(None, (_last(received.status), _last(received.status_below))))
    # Directories write the person's name and address into the message.
    told = f"{codes}: {received.status_message}" if received.status_message else codes
    mend = faults.MENDS_BY_STATUS.get(_last(received.status_below)) or faults.MENDS_BY_STATUS.get(_last(received.status)) or ""
    return faults.DECLINED.found(came=told, expected="Success", mend=mend, personal=received.status_message != "")


def _request(named: str | None, expected: Expected) -> Check:
    if expected.request_id is None:
        return faults.UNSOLICITED.found() if named is None else faults.UNKNOWN_REQUEST.found(came=named)
    if named is None:
        return faults.NO_REQUEST_NAMED.found(expected=expected.request_id)
    if named != expected.request_id:
        return faults.OTHER_REQUEST.found(came=named, expected=expected.request_id)
    return passed(CheckName.IN_RESPONSE_TO, "The response is for the request from this browser.", came=named)


def _destination(received: ReceivedResponse, expected: Expected) -> Check:
    if received.destination is None:
        # SAML bindings, section 3.5.5.2: a signed message says where it goes. The recipient of the assertion is checked in any case.
        if received.signed:
            return faults.NO_DESTINATION.found(expected=expected.acs_url)
        return passed(
            CheckName.DESTINATION, "The response names no destination. It does not have to, because the response itself is not signed."
        )
    if received.destination != expected.acs_url:
        return faults.OTHER_DESTINATION.found(came=received.destination, expected=expected.acs_url)
    return passed(CheckName.DESTINATION, "The response was issued for this URL.", came=received.destination)


def _outer_issuer(received: ReceivedResponse, expected: Expected) -> Sequence[Check]:
    if received.issuer is not None:
        return (_issuer(received.issuer, expected),)
    # SAML profiles, section 4.1.4.2.
    return (faults.NO_ISSUER.found(expected=expected.issuer),) if received.signed or received.encrypted else ()


def _issuer(named: str, expected: Expected) -> Check:
    if named == "":
        return faults.NO_ISSUER.found(expected=expected.issuer)
    if named != expected.issuer:
        return faults.OTHER_ISSUER.found(came=named, expected=expected.issuer)
    return passed(CheckName.ISSUER, "The response was issued by the configured identity provider.", came=named)


def _confirmation(confirmations: Sequence[ReceivedConfirmation], expected: Expected) -> Iterable[Check]:
    if not confirmations:
        yield faults.NO_CONFIRMATION.found()
    elif len(confirmations) > 1:
        yield faults.SEVERAL_CONFIRMATIONS.found(came=str(len(confirmations)), expected="1")
    else:
        said = confirmations[0]
        yield _request(said.in_response_to, expected)
        if said.recipient is None:
            yield faults.NO_RECIPIENT.found(expected=expected.acs_url)
        elif said.recipient != expected.acs_url:
            yield faults.OTHER_RECIPIENT.found(came=said.recipient, expected=expected.acs_url)
        else:
            yield passed(CheckName.RECIPIENT, "The assertion can be used at this URL.", came=said.recipient)


def _audience(said: ReceivedAssertion, expected: Expected) -> Check:
    if said.conditions.unknown:
        return faults.UNKNOWN_CONDITION.found(came=", ".join(said.conditions.unknown))
    if not said.conditions.audiences:
        return faults.NO_AUDIENCE.found(expected=expected.entity_id)
    for audiences in said.conditions.audiences:
        if expected.entity_id not in audiences:
            return faults.OTHER_AUDIENCE.found(came=", ".join(audiences), expected=expected.entity_id)
    return passed(CheckName.AUDIENCE, "The assertion is for this connection.", came=expected.entity_id)


def restricts_proxying(proxies: Sequence[ReceivedProxying], entity_id: str) -> bool:
    """Whether the directory forbids that we tell others of the person (SAML core, section 2.5.1.6). A count without a number forbids it."""
    return any(
        (one.count is not None and not (one.count.strip().isascii() and one.count.strip().isdecimal() and int(one.count[:20]) > 0))
        or (bool(one.audiences) and entity_id not in one.audiences)
        for one in proxies
    )


def _applications(said: ReceivedAssertion, expected: Expected) -> Check:
    proxies = said.conditions.proxies
    if not restricts_proxying(proxies, expected.entity_id):
        return passed(CheckName.APPLICATIONS, "The identity provider allows the person to sign in to applications.")
    came = "; ".join(f"Count {one.count}" if one.count is not None else ", ".join(one.audiences) for one in proxies)
    return passed(
        CheckName.APPLICATIONS,
        "The identity provider allows the person to use only the pages of this installation (ProxyRestriction), so sign-in to "
        "every application is denied. To allow applications, remove the restriction at the identity provider, or add Postern's "
        "entity ID to it.",
        came=f"ProxyRestriction {came}",
        expected=f"no ProxyRestriction, or one with {expected.entity_id}",
    )


def _times(said: ReceivedAssertion, expected: Expected) -> Iterable[Check]:
    """Each time that is there. Only the end of the confirmation must be."""
    statement, confirmation = said.statement, said.confirmations[0] if len(said.confirmations) == 1 else None
    if confirmation is not None and confirmation.not_on_or_after is None:
        yield faults.NO_TIME.found(expected="NotOnOrAfter of SubjectConfirmationData")
    begins = {"IssueInstant": said.issue_instant, "NotBefore": said.conditions.not_before}
    ends = {"NotOnOrAfter": said.conditions.not_on_or_after}
    if confirmation is not None:
        begins["NotBefore of SubjectConfirmationData"] = confirmation.not_before
        ends["NotOnOrAfter of SubjectConfirmationData"] = confirmation.not_on_or_after
    if statement is not None:
        begins["AuthnInstant"] = statement.authn_instant
        ends["SessionNotOnOrAfter"] = statement.session_not_on_or_after
    now = f"now, {_detailed(expected.now)}"
    for name, text in (begins | ends).items():
        if text is None:
            continue
        at = moment(text)
        if at is None:
            yield faults.NO_MOMENT.found(came=f"{name} {text}")
        elif name in begins and at > expected.now + TOLERANCE:
            yield faults.TOO_EARLY.found(came=f"{name} {text}", expected=now)
        elif name in ends and at <= expected.now - TOLERANCE:
            fault = faults.SESSION_ENDED if name == "SessionNotOnOrAfter" else faults.TOO_LATE
            yield fault.found(came=f"{name} {text}", expected=now)
    yield passed(CheckName.TIMES, "The assertion is valid now.", came=said.issue_instant, expected=now)


def _authentication(said: ReceivedAssertion, expected: Expected) -> Check:
    statement = said.statement
    at = None if statement is None else _moment(statement.authn_instant)
    if statement is None or at is None:
        return faults.NO_AUTHENTICATION.found()
    since = expected.authenticated_since
    if since is not None and at < since - TOLERANCE:
        return faults.TOO_LONG_AGO.found(came=f"AuthnInstant {statement.authn_instant}", expected=f"{_detailed(since)} or later")
    how = statement.context_class or "no class"
    # Every connection takes two factors for what it asks. An application may have asked for them.
    if expected.contexts and statement.context_class not in {*expected.contexts, TWO_FACTORS_OF_DIRECTORIES}:
        wanted = ", ".join(expected.contexts)
        if expected.compares_contexts:
            return faults.OTHER_CONTEXT.found(came=how, expected=wanted)
        return passed(
            CheckName.AUTHENTICATION,
            "The person signed in there with another method than required. After the identity provider is tested again, this is denied.",
            came=f"{_detailed(at)}, {how}",
            expected=wanted,
        )
    # Microsoft's directories say there what others say in the context.
    more = (value for one in said.attributes if one.name == METHODS_OF_MICROSOFT for value in one.values)
    told = ", ".join((_detailed(at), how, *more))
    return passed(CheckName.AUTHENTICATION, "The identity provider states when and how the person signed in.", came=told)


def _lowest_status(received: ReceivedResponse) -> str:
    return shown(_last(received.status_below) or _last(received.status))


def _last(uri: str) -> str:
    return uri.rpartition(":")[2]


def _moment(text: str | None) -> datetime | None:
    return None if text is None else moment(text)


def _detailed(at: datetime) -> str:
    return f"{at.replace(tzinfo=None).isoformat(' ', 'seconds')} UTC"

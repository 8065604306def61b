"""Reads a SAML response."""

from base64 import b64decode
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any, Final

from adapters.saml.encryption import NotOpened, opened
from adapters.saml.metadata import TrustedCertificate, known_certificate
from adapters.saml.parsing import (
    LONGEST_VALUE,
    SIGNATURE,
    FormRefused,
    MethodRefused,
    attribute_of,
    only_child,
    parsed,
    require_form,
    require_unique_ids,
    text_of,
    unpacked_form,
    verifies,
)
from adapters.saml.signing import ASSERTION, BEARER, DS, OF_DIRECTORIES, PROTOCOL, SIGNATURE_METHODS
from core.domain.identity.upstream.connection_tests import Check, Examination
from core.domain.identity.upstream.saml import faults
from core.domain.identity.upstream.saml.assertions import LONGEST_RESPONSE, Expected, ReceivedAttribute
from core.domain.identity.upstream.saml.faults import malformed
from core.domain.identity.upstream.saml.judgements import (
    examination,
    is_worth_verifying,
    judge_assertion,
    judge_proof,
    judge_response,
    judged,
)
from core.domain.identity.upstream.saml.received import (
    AnswerProof,
    ReceivedAssertion,
    ReceivedConditions,
    ReceivedConfirmation,
    ReceivedProxying,
    ReceivedResponse,
    ReceivedStatement,
)
from core.domain.saml import ID, LONGEST_ID, DirectoryNameId, MessageRefused, Status
from core.frozen import Frozen

Element = Any
_MOST_ELEMENTS: Final = 5000
_RESPONSE: Final = f"{{{PROTOCOL}}}Response"
_ASSERTION: Final = f"{{{ASSERTION}}}Assertion"
_ENCRYPTED: Final = f"{{{ASSERTION}}}EncryptedAssertion"
# Keycloak puts the name of its key into Extensions. Nobody reads them, and what wrappings hide there is refused with the assertions in it.
_IN_RESPONSE: Final = frozenset(
    {f"{{{ASSERTION}}}Issuer", SIGNATURE, f"{{{PROTOCOL}}}Extensions", f"{{{PROTOCOL}}}Status", _ASSERTION, _ENCRYPTED}
)
_IN_ASSERTION: Final = frozenset(
    {SIGNATURE, *(f"{{{ASSERTION}}}{name}" for name in ("Issuer", "Subject", "Conditions", "AuthnStatement", "AttributeStatement"))}
)
# Conditions that hold without a look: every assertion counts once here, and is passed on to nobody.
_KEPT_CONDITIONS: Final = frozenset({f"{{{ASSERTION}}}OneTimeUse", f"{{{ASSERTION}}}ProxyRestriction"})
_BY_HAND: Final = "No directory sends such answers by itself: somebody may have built this one by hand"
_NIL: Final = "{http://www.w3.org/2001/XMLSchema-instance}nil"


class _NotProved(Exception):
    """Nobody vouches for the content. `check` says why."""

    def __init__(self, check: Check) -> None:
        super().__init__(check.fault)
        self.check = check


class _Signed(Frozen):
    certificate: TrustedCertificate
    method: str


def read_response(packed: str, expected: Expected) -> Examination:
    """Everything is read from the verified element, and from the places that the standard gives it. A response with elements in other
    places is refused as a whole, so that no two readers can disagree about it.
    """
    try:
        root = parsed(unpacked_form(packed, LONGEST_RESPONSE), most_elements=_MOST_ELEMENTS)
        received = _outside(root)
    except MessageRefused as refusal:
        return examination(judged([malformed(refusal.reason, refusal.advice)]))
    checks = judge_response(received, expected)
    if not is_worth_verifying(checks):
        return examination(checks, received)
    try:
        assertion, proof = _proved(root, expected)
        said = _assertion(assertion, expected)
    except (_NotProved, NotOpened) as refusal:
        return examination(judged([*checks.values(), refusal.check]), received)
    except MessageRefused as refusal:
        return examination(judged([malformed(refusal.reason, refusal.advice), *checks.values()]), received)
    outside = judged([*checks.values(), *judge_proof(proof, expected).values()])
    return judge_assertion(outside, said, received, proof, expected)


def _outside(root: Element) -> ReceivedResponse:
    if root.tag != _RESPONSE:
        raise MessageRefused("it is no Response of SAML 2.0")
    _require_only(root, _IN_RESPONSE)
    _require_head(root)
    status = only_child(root, PROTOCOL, "Status")
    code = None if status is None else only_child(status, PROTOCOL, "StatusCode")
    if status is None or code is None:
        raise MessageRefused("it has no Status")
    below, message = only_child(code, PROTOCOL, "StatusCode"), only_child(status, PROTOCOL, "StatusMessage")
    issuer = only_child(root, ASSERTION, "Issuer")
    assertions = [one for one in root if one.tag in {_ASSERTION, _ENCRYPTED}]
    said = attribute_of(code, "Value") or ""
    if len(assertions) != (1 if said == Status.SUCCESS.value else 0):
        raise MessageRefused(f"it has {len(assertions)} assertions", "Send one assertion with a success, and none with a failure")
    # One that stands elsewhere would be read by nobody here. Whoever built it hopes for a reader that searches.
    if sum(1 for _ in root.iter(_ASSERTION, _ENCRYPTED)) != len(assertions):
        raise MessageRefused("it has an assertion in a place where SAML has none", _BY_HAND)
    return ReceivedResponse(
        id=attribute_of(root, "ID") or "",
        destination=attribute_of(root, "Destination") or None,
        in_response_to=attribute_of(root, "InResponseTo") or None,
        issuer=None if issuer is None else text_of(issuer),
        status=said,
        status_below="" if below is None else attribute_of(below, "Value") or "",
        status_message="" if message is None else text_of(message),
        signed=root.find(SIGNATURE) is not None,
        encrypted=any(one.tag == _ENCRYPTED for one in assertions),
    )


def _proved(root: Element, expected: Expected) -> tuple[Element, AnswerProof]:
    """The assertion, under every signature that is there. Raises `_NotProved`, `NotOpened` and `MessageRefused`."""
    assertion = next(one for one in root if one.tag in {_ASSERTION, _ENCRYPTED})
    places = (root, assertion) if assertion.tag == _ASSERTION else (root,)
    signed = list(_verified(root, places, expected))
    # A signature of the response comes first, if there is one.
    covers_all = root.find(SIGNATURE) is not None
    encryption = ""
    if assertion.tag == _ENCRYPTED:
        content = opened(assertion, expected.decryption_keys, covered=covers_all)
        encryption = content.method
        around = parsed(content.text, most_elements=_MOST_ELEMENTS, around=assertion.nsmap)
        assertion = _within(around, _ASSERTION)
        signed.extend(_verified(around, (assertion,), expected))
    if not signed:
        raise _NotProved(faults.UNSIGNED.found(expected="a signature of the assertion, the response, or both"))
    if next(iter(assertion.iterdescendants(_ASSERTION, _ENCRYPTED)), None) is not None:
        raise MessageRefused("it has an assertion in a place where SAML has none", _BY_HAND)
    # With two signatures, the certificate that is told is one that has ended, if there is one.
    told = min(signed, key=lambda one: (_is_valid(one.certificate, expected), one.certificate.valid_until))
    both = "the response and of the assertion" if len(signed) > 1 else "the response" if covers_all else "the assertion"
    return assertion, AnswerProof(
        what=both,
        algorithm=SIGNATURE_METHODS[told.method],
        fingerprint=told.certificate.fingerprint,
        valid_from=told.certificate.valid_from,
        valid_until=told.certificate.valid_until,
        encryption=encryption,
    )


def _verified(root: Element, places: Sequence[Element], expected: Expected) -> Iterator[_Signed]:
    """The signatures of a document, each a child of one of these places, over this place. Raises `_NotProved` unless all verify."""
    signatures = list(root.iter(SIGNATURE))
    if not signatures:
        return
    parents = [one.getparent() for one in signatures]
    if len(parents) > len(places) or any(parents.count(place) > 1 for place in places) or any(one not in places for one in parents):
        came, wanted = "several signatures, or one in the wrong place", "one of the assertion, of the response, or both"
        raise _NotProved(faults.SIGNATURE_FORM.found(came=came, expected=wanted))
    try:
        require_unique_ids(root)
        methods = [require_form(one, OF_DIRECTORIES) for one in signatures]
    except MethodRefused as refusal:
        raise _NotProved(faults.WEAK_ALGORITHM.found(came=refusal.method, expected="RSA or ECDSA with SHA-256 or better")) from None
    except FormRefused as refusal:
        raise _NotProved(faults.SIGNATURE_FORM.found(came=refusal.reason, expected=refusal.advice)) from None
    for signature, method in zip(signatures, methods, strict=True):
        yield _Signed(_signer(signature, expected), method)


def _signer(signature: Element, expected: Expected) -> TrustedCertificate:
    """The certificate that verifies the signature. Raises `_NotProved`."""
    known = [known_certificate(pem) for pem in expected.certificates]
    if not known:
        raise _NotProved(faults.NO_CERTIFICATES.found())
    # A renewed certificate may have the key of one that has ended.
    for one in sorted(known, key=lambda one: not _is_valid(one, expected)):
        if verifies(signature, one.pem):
            if one.is_weak:
                raise _NotProved(faults.WEAK_KEY.found(came=f"SHA-256 {one.fingerprint}"))
            return one
    all_known = ", ".join(f"SHA-256 {one.fingerprint}" for one in known)
    named = _named_certificate(signature)
    if named and named not in {one.fingerprint for one in known}:
        raise _NotProved(faults.UNKNOWN_CERTIFICATE.found(came=f"SHA-256 {named}", expected=all_known))
    raise _NotProved(faults.BROKEN_SIGNATURE.found(expected=all_known))


def _is_valid(certificate: TrustedCertificate, expected: Expected) -> bool:
    return certificate.valid_from <= expected.now < certificate.valid_until


def _named_certificate(signature: Element) -> str:
    """The fingerprint of the certificate that the answer says has signed it. It is told to people, and trusted by nobody."""
    found = signature.find(f"{{{DS}}}KeyInfo/{{{DS}}}X509Data/{{{DS}}}X509Certificate")
    try:
        return "" if found is None else sha256(b64decode("".join((found.text or "").split()), validate=True)).hexdigest()
    except ValueError:
        return ""


def _assertion(element: Element, expected: Expected) -> ReceivedAssertion:
    """What the verified element says. Raises `MessageRefused` and `NotOpened`."""
    _require_only(element, _IN_ASSERTION)
    _require_head(element)
    issuer, subject = only_child(element, ASSERTION, "Issuer"), only_child(element, ASSERTION, "Subject")
    conditions, statement = only_child(element, ASSERTION, "Conditions"), only_child(element, ASSERTION, "AuthnStatement")
    return ReceivedAssertion(
        id=attribute_of(element, "ID") or "",
        issue_instant=attribute_of(element, "IssueInstant") or "",
        issuer="" if issuer is None else text_of(issuer),
        name_id=None if subject is None else _subject(subject, expected),
        confirmations=() if subject is None else tuple(_confirmations(subject)),
        conditions=ReceivedConditions() if conditions is None else _conditions(conditions),
        statement=None if statement is None else _statement(statement),
        attributes=tuple(_attributes(element)),
    )


def _subject(subject: Element, expected: Expected) -> DirectoryNameId | None:
    name_id, encrypted = only_child(subject, ASSERTION, "NameID"), only_child(subject, ASSERTION, "EncryptedID")
    if name_id is not None and encrypted is not None:
        raise MessageRefused("its Subject has two names")
    if encrypted is not None:
        # It stands in what a signature covers.
        content = opened(encrypted, expected.decryption_keys, covered=True)
        around = parsed(content.text, most_elements=_MOST_ELEMENTS, around=encrypted.nsmap)
        name_id = _within(around, f"{{{ASSERTION}}}NameID")
    return None if name_id is None else _name_id(name_id)


def _name_id(element: Element) -> DirectoryNameId:
    return DirectoryNameId(
        text=text_of(element),
        format=attribute_of(element, "Format"),
        name_qualifier=attribute_of(element, "NameQualifier"),
        sp_name_qualifier=attribute_of(element, "SPNameQualifier"),
    )


def _confirmations(subject: Element) -> Iterator[ReceivedConfirmation]:
    for one in subject.iterchildren(f"{{{ASSERTION}}}SubjectConfirmation"):
        if one.get("Method") != BEARER:
            continue
        data = only_child(one, ASSERTION, "SubjectConfirmationData")
        yield ReceivedConfirmation(
            recipient=None if data is None else attribute_of(data, "Recipient"),
            in_response_to=None if data is None else attribute_of(data, "InResponseTo"),
            not_before=None if data is None else attribute_of(data, "NotBefore"),
            not_on_or_after=None if data is None else attribute_of(data, "NotOnOrAfter"),
        )


def _conditions(conditions: Element) -> ReceivedConditions:
    restriction = f"{{{ASSERTION}}}AudienceRestriction"
    return ReceivedConditions(
        not_before=attribute_of(conditions, "NotBefore"),
        not_on_or_after=attribute_of(conditions, "NotOnOrAfter"),
        audiences=tuple(
            tuple(text_of(audience) for audience in one.iterchildren(f"{{{ASSERTION}}}Audience"))
            for one in conditions.iterchildren(restriction)
        ),
        proxies=tuple(
            ReceivedProxying(
                count=attribute_of(one, "Count"),
                audiences=tuple(text_of(audience) for audience in one.iterchildren(f"{{{ASSERTION}}}Audience")),
            )
            for one in conditions.iterchildren(f"{{{ASSERTION}}}ProxyRestriction")
        ),
        unknown=tuple(str(one.tag).rpartition("}")[2] for one in conditions if one.tag not in {restriction, *_KEPT_CONDITIONS}),
    )


def _statement(statement: Element) -> ReceivedStatement:
    context = only_child(statement, ASSERTION, "AuthnContext")
    how = None if context is None else only_child(context, ASSERTION, "AuthnContextClassRef")
    return ReceivedStatement(
        authn_instant=attribute_of(statement, "AuthnInstant"),
        session_index=attribute_of(statement, "SessionIndex"),
        session_not_on_or_after=attribute_of(statement, "SessionNotOnOrAfter"),
        context_class=None if how is None else text_of(how),
    )


def _attributes(assertion: Element) -> Iterator[ReceivedAttribute]:
    for statement in assertion.iterchildren(f"{{{ASSERTION}}}AttributeStatement"):
        for one in statement.iterchildren(f"{{{ASSERTION}}}Attribute"):
            values = (_value(value) for value in one.iterchildren(f"{{{ASSERTION}}}AttributeValue"))
            yield ReceivedAttribute(
                name=attribute_of(one, "Name") or "",
                friendly_name=attribute_of(one, "FriendlyName"),
                values=tuple(value for value in values if value is not None),
            )


def _value(element: Element) -> str | None:
    """None for a value that is no text, or too long for one, such as a picture. A name may stand in a NameID (eduPersonTargetedID)."""
    if element.get(_NIL) in {"true", "1"}:
        return None
    if len(element) == 1 and element[0].tag == f"{{{ASSERTION}}}NameID":
        return text_of(element[0])
    if len(element) or len(element.text or "") > LONGEST_VALUE:
        return None
    return text_of(element)


def _within(around: Element, tag: str) -> Element:
    """The one element of a part that was encrypted."""
    if len(around) != 1 or around[0].tag != tag or (around.text or "").strip() or (around[0].tail or "").strip():
        raise NotOpened(faults.BROKEN_ENCRYPTION, came="something else than SAML has there", expected=tag.rpartition("}")[2])
    return around[0]


def _require_only(element: Element, allowed: frozenset[str]) -> None:
    for child in element:
        if child.tag not in allowed:
            name, where = str(child.tag).rpartition("}")[2], str(element.tag).rpartition("}")[2]
            raise MessageRefused(f"its {where} has {name}, which is not accepted", "Configure the identity provider to omit it")


def _require_head(element: Element) -> None:
    name = str(element.tag).rpartition("}")[2]
    if element.get("Version") != "2.0":
        raise MessageRefused(f"the Version of its {name} is not 2.0", "Configure the identity provider for SAML 2.0")
    id_ = element.get("ID") or ""
    if len(id_) > LONGEST_ID or not ID.fullmatch(id_):
        raise MessageRefused(f"the ID of its {name} is not a valid XML ID")

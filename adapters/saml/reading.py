"""Read the requests and sign-outs of service providers and directories."""

from typing import Any, Final

from adapters.saml.parsing import attribute_of, flag_of, is_signed, only_child, parsed, text_of, unpacked, verified, verify_octets
from adapters.saml.signing import ASSERTION, OF_SERVICE_PROVIDERS, PROTOCOL, Accepted
from core.domain.federation.saml.messages import AuthnRequest
from core.domain.saml import Envelope, LogoutResponse, MessageHead, MessageRefused, RequestedContext, SamlBinding, SamlLogoutRequest, Status

Element = Any
_SHORT: Final = 4096


def short(envelope: Envelope) -> bytes | None:
    """The unpacked message, if it is short enough to be read within a fraction of a millisecond. None for a longer message, of which only
    the beginning is unpacked. Raises `MessageRefused`.
    """
    if len(envelope.packed) > _SHORT:
        return None
    document = unpacked(envelope, _SHORT)
    return document if len(document) <= _SHORT else None


def read_authn_request(
    envelope: Envelope, certificates: tuple[str, ...], document: bytes | None = None, accepted: Accepted = OF_SERVICE_PROVIDERS
) -> AuthnRequest:
    root, head = _message(envelope, "AuthnRequest", certificates, document, accepted)
    policy = only_child(root, PROTOCOL, "NameIDPolicy")
    subject = only_child(root, ASSERTION, "Subject")
    name_id = None if subject is None else only_child(subject, ASSERTION, "NameID")
    others = () if subject is None else (only_child(subject, ASSERTION, name) for name in ("BaseID", "EncryptedID"))
    return AuthnRequest(
        head=head,
        acs_url=attribute_of(root, "AssertionConsumerServiceURL"),
        acs_index=attribute_of(root, "AssertionConsumerServiceIndex"),
        protocol_binding=attribute_of(root, "ProtocolBinding"),
        force=flag_of(root, "ForceAuthn"),
        passive=flag_of(root, "IsPassive"),
        name_id_format=None if policy is None else attribute_of(policy, "Format"),
        name_qualifier=None if policy is None else attribute_of(policy, "SPNameQualifier"),
        subject=None if name_id is None else text_of(name_id),
        subject_qualifier=None if name_id is None else attribute_of(name_id, "SPNameQualifier"),
        unreadable_subject=any(one is not None for one in others),
        context=_context(root),
    )


def read_logout_request(
    envelope: Envelope, certificates: tuple[str, ...], document: bytes | None = None, accepted: Accepted = OF_SERVICE_PROVIDERS
) -> SamlLogoutRequest:
    root, head = _message(envelope, "LogoutRequest", certificates, document, accepted)
    name_id = only_child(root, ASSERTION, "NameID")
    if name_id is None:
        raise MessageRefused("it has no NameID", "Send the NameID of the assertion, unencrypted")
    return SamlLogoutRequest(
        head=head,
        name_id=text_of(name_id),
        name_id_format=attribute_of(name_id, "Format"),
        name_qualifier=attribute_of(name_id, "NameQualifier"),
        sp_name_qualifier=attribute_of(name_id, "SPNameQualifier"),
        session_indexes=tuple(text_of(one) for one in root.findall(f"{{{PROTOCOL}}}SessionIndex")),
        not_on_or_after=attribute_of(root, "NotOnOrAfter"),
    )


def read_logout_response(
    envelope: Envelope, certificates: tuple[str, ...], document: bytes | None = None, accepted: Accepted = OF_SERVICE_PROVIDERS
) -> LogoutResponse:
    root, head = _message(envelope, "LogoutResponse", certificates, document, accepted)
    status = only_child(root, PROTOCOL, "Status")
    code = None if status is None else only_child(status, PROTOCOL, "StatusCode")
    below = None if code is None else only_child(code, PROTOCOL, "StatusCode")
    return LogoutResponse(
        head=head,
        in_response_to=attribute_of(root, "InResponseTo"),
        status="" if code is None else attribute_of(code, "Value") or "",
        partial=below is not None and attribute_of(below, "Value") == Status.PARTIAL_LOGOUT.value,
    )


def _message(
    envelope: Envelope, name: str, certificates: tuple[str, ...], document: bytes | None, accepted: Accepted
) -> tuple[Element, MessageHead]:
    """`document` is the unpacked message of the envelope, if the caller has unpacked it already."""
    root = parsed(unpacked(envelope) if document is None else document)
    if root.tag != f"{{{PROTOCOL}}}{name}":
        raise MessageRefused(f"it is no {name}")
    return root, _head(root, envelope, certificates, accepted)


def _head(root: Element, envelope: Envelope, certificates: tuple[str, ...], accepted: Accepted) -> MessageHead:
    signed = unverified = False
    if envelope.binding is SamlBinding.REDIRECT:
        if is_signed(root) and certificates:
            raise MessageRefused("its signature stands in the message", "With the redirect binding, put it into the address")
        if envelope.signature is not None and certificates:
            verify_octets(envelope.signed_octets, envelope.signature, envelope.algorithm, certificates, accepted)
            signed = True
        unverified = not signed and (envelope.signature is not None or is_signed(root))
    elif certificates:
        signed = verified(root, certificates, accepted)
    else:
        unverified = is_signed(root)
    issuer = only_child(root, ASSERTION, "Issuer")
    if issuer is None:
        raise MessageRefused("it has no Issuer", f"Send the entity id of {accepted.sender} as Issuer")
    return MessageHead(
        id=attribute_of(root, "ID") or "",
        version=attribute_of(root, "Version") or "",
        issue_instant=attribute_of(root, "IssueInstant") or "",
        destination=attribute_of(root, "Destination") or None,
        issuer=text_of(issuer),
        signed=signed,
        unverified=unverified,
    )


def _context(root: Element) -> RequestedContext | None:
    requested = only_child(root, PROTOCOL, "RequestedAuthnContext")
    if requested is None:
        return None
    classes = tuple(text_of(one) for one in requested.findall(f"{{{ASSERTION}}}AuthnContextClassRef"))
    return RequestedContext(classes=classes, comparison=attribute_of(requested, "Comparison") or "exact")

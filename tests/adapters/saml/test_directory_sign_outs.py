"""Sign-outs between a directory and its service provider."""

from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

import pytest
import trio
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from lxml import etree

from adapters.saml.documents import XmlServiceProviderDocuments, XmlThreads
from core.domain.saml import DirectoryNameId, Envelope, MessageRefused, OurLogoutRequest, OurLogoutResponse, SamlBinding, Status
from ops.stand_ins.saml import (
    CONNECTION,
    DIRECTORY,
    DS,
    NOW,
    PERSISTENT,
    RSA_SHA256,
    SAML,
    SAMLP,
    Pair,
    at,
    directory,
    document,
    made,
    name_id,
    pair,
    sign,
    written,
)
from tests.adapters.saml.answering import key_pair
from tests.http.federation.providing import deflated

_SLO: Final = f"{DIRECTORY}/slo"
_MORE: Final = "http://www.w3.org/2001/04/xmldsig-more#"
_HASHES: Final = {"sha256": hashes.SHA256(), "sha384": hashes.SHA384(), "sha512": hashes.SHA512(), "sha1": hashes.SHA1()}  # noqa: S303


def _asked() -> str:
    return (
        f'<samlp:LogoutRequest xmlns:samlp="{SAMLP}" xmlns:saml="{SAML}" ID="_l1" Version="2.0" IssueInstant="{at()}"'
        f' Destination="{CONNECTION}/slo"><saml:Issuer>{DIRECTORY}</saml:Issuer>'
        f"{name_id(NameQualifier=DIRECTORY, SPNameQualifier=CONNECTION)}<samlp:SessionIndex>_s1</samlp:SessionIndex></samlp:LogoutRequest>"
    )


def _in_form(signer: Pair, **more: Any) -> Envelope:
    root = document(_asked())
    sign(root, signer, **more)
    return Envelope(binding=SamlBinding.POST, packed=b64encode(written(root).encode()).decode())


def _in_address(signer: Pair, method: str = RSA_SHA256, change: Callable[[str], str] = str) -> Envelope:
    query = f"SAMLRequest={quote(deflated(_asked()), safe='')}&RelayState=x&SigAlg={quote(method, safe='')}"
    key: Any = load_pem_private_key(signer.key.encode(), None)
    hashed = _HASHES[method.rpartition("-")[2].rpartition("#")[2]]
    if isinstance(key, ec.EllipticCurvePrivateKey):
        numbers = decode_dss_signature(key.sign(query.encode(), ec.ECDSA(hashed)))
        signature = b"".join(one.to_bytes((key.key_size + 7) // 8, "big") for one in numbers)
    else:
        signature = key.sign(query.encode(), padding.PKCS1v15(), hashed)
    packed = deflated(change(_asked()))
    return Envelope(
        binding=SamlBinding.REDIRECT,
        packed=packed,
        signature=b64encode(signature).decode(),
        algorithm=method,
        signed_octets=query.encode() if change is str else query.replace("x", "y").encode(),
    )


def _documents() -> XmlServiceProviderDocuments:
    return XmlServiceProviderDocuments(XmlThreads(), trio.lowlevel.checkpoint)


async def test_a_directory_signs_its_sign_out_as_its_answers() -> None:
    ours, curve = _documents(), made("ec", "p256")
    known = (made("other").certificate, curve.certificate, directory().certificate)
    for envelope in (
        _in_form(directory()),
        _in_form(directory(), method=f"{_MORE}rsa-sha512"),
        _in_form(curve, method=f"{_MORE}ecdsa-sha256"),
        *(_in_address(directory(), f"{_MORE}rsa-{one}") for one in ("sha256", "sha384", "sha512")),
        *(_in_address(curve, f"{_MORE}ecdsa-{one}") for one in ("sha256", "sha384", "sha512")),
    ):
        read = await ours.read_logout_request(envelope, known)
        assert read.head.signed
        assert (read.head.issuer, read.head.destination) == (DIRECTORY, f"{CONNECTION}/slo")
        assert (read.name_id, read.name_id_format, read.session_indexes) == ("p-1", PERSISTENT, ("_s1",))
        assert (read.name_qualifier, read.sp_name_qualifier) == (DIRECTORY, CONNECTION)


async def test_another_signature_is_refused_in_words_about_the_directory() -> None:
    ours, curve = _documents(), made("ec", "p256")
    for envelope, told in (
        (_in_form(made("stranger")), "a certificate of the identity provider"),
        (_in_form(directory(), method=f"{DS}rsa-sha1"), "RSA with SHA-256 or"),
        (_in_address(directory(), f"{DS}rsa-sha1"), "RSA with SHA-256 or"),
        (_in_address(made("stranger")), "a certificate of the identity provider"),
        (_in_address(curve, f"{_MORE}ecdsa-sha256"), "a certificate of the identity provider"),
        (_in_address(directory(), change=lambda text: text.replace("p-1", "p-2")), "a certificate of the identity provider"),
    ):
        with pytest.raises(MessageRefused) as refused:
            await ours.read_logout_request(envelope, (directory().certificate,))
        assert told in refused.value.reason
        assert "service provider" not in refused.value.reason + refused.value.advice
    unsigned = Envelope(binding=SamlBinding.POST, packed=b64encode(_asked().encode()).decode())
    assert not (await ours.read_logout_request(unsigned, (directory().certificate,))).head.signed


async def test_our_sign_out_names_the_person_as_the_directory_did() -> None:
    ours = _documents()
    for name, index in (
        (DirectoryNameId(text="p-1", format=PERSISTENT, name_qualifier=DIRECTORY, sp_name_qualifier=CONNECTION), "_s1"),
        (DirectoryNameId(text="<&>", format="urn:example:own"), None),
        (DirectoryNameId(text="p-1"), None),
    ):
        message = OurLogoutRequest(id="_l2", issuer=CONNECTION, destination=_SLO, issued_at=NOW, name_id=name, session_index=index)
        sent = b64decode(await ours.write_logout(message, key_pair(pair("ours")), relay_state=None, redirect=False))
        asked = etree.fromstring(sent)
        assert etree.tostring(asked, method="c14n", exclusive=True) == sent
        told = asked.find("{*}NameID")
        said = {"Format": name.format, "NameQualifier": name.name_qualifier, "SPNameQualifier": name.sp_name_qualifier}
        assert (told.text, dict(told.attrib)) == (name.text, {key: value for key, value in said.items() if value is not None})
        assert asked.findtext("{*}SessionIndex") == index
    answer = OurLogoutResponse(id="_l3", issuer=CONNECTION, destination=_SLO, in_response_to="_l1", issued_at=NOW, status=Status.SUCCESS)
    sent = b64decode(await ours.write_logout(answer, key_pair(pair("ours")), relay_state=None, redirect=False))
    back = Envelope(binding=SamlBinding.POST, packed=b64encode(sent).decode())
    read = await ours.read_logout_response(back, (pair("ours").certificate,))
    assert (read.well, read.in_response_to, read.head.signed) == (True, "_l1", True)

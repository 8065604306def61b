"""SAML messages that must be refused (row 17), and the messages that we send (row 18). Each hostile message is refused quickly, signs
nobody in, and leaves nothing behind but an entry of the flight recorder.
"""

import string
import threading
import time
import tracemalloc
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final
from urllib.parse import quote, urlencode

import pytest
import trio
import xmlsec
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from adapters.saml import reading
from adapters.saml.signing import worded
from adapters.saml.writing import write_assertion, write_response
from core.domain.federation.saml.messages import Response, SamlAssertion
from core.domain.saml import Envelope, KeyPair, MessageRefused, NameId, NameIdFormat, RequestDeclined, SamlBinding, Status
from core.domain.secrets import Secret
from entrypoints.http.pages import saml
from ops.stand_ins.saml import DS, SAML, SAMLP, pair
from tests.http.federation.providing import (
    ACS,
    SLO,
    SP,
    Providing,
    asking,
    authn_request,
    deflated,
    in_form,
    in_query,
    logout_request,
    metadata,
    now,
    sent,
    sign,
    signed,
    slo,
    sso,
    verifier,
)
from tests.http.people import BASE_URL

Attack = tuple[str, Callable[[], str | bytes]]
_ENVELOPED: Final = "http://www.w3.org/2000/09/xmldsig#enveloped-signature"
_EXCLUSIVE: Final = "http://www.w3.org/2001/10/xml-exc-c14n#"
_RSA: Final = "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256"
_EVIL: Final = "https://evil.example/acs"


def _good() -> str:
    return signed(authn_request(), pair())


def _swapped(old: str, new: str) -> Callable[[], str]:
    def made() -> str:
        document = _good()
        assert old in document, old
        return document.replace(old, new)

    return made


def _changed(change: Callable[[Any], None]) -> Callable[[], str]:
    """A good request that was changed after it was signed."""

    def made() -> str:
        root = etree.fromstring(_good().encode())
        change(root)
        return str(etree.tostring(root), "utf-8")

    return made


def _resigned(change: Callable[[Any], None]) -> Callable[[], str]:
    """A signature of another form, made with the right key: the form alone must be enough for a refusal."""

    def made() -> str:
        root = etree.fromstring(authn_request().encode())
        sign(root, pair())
        # The document is parsed again, since lxml does not find the nodes that xmlsec has just made.
        root = etree.fromstring(etree.tostring(root))
        signature = root.find(f"{{{DS}}}Signature")
        change(signature)
        context = xmlsec.SignatureContext()
        context.key = xmlsec.Key.from_memory(pair().key, xmlsec.constants.KeyDataFormatPem)
        context.register_id(root, "ID")
        # The library refuses some forms, too. Then the existing value is left.
        with suppress(xmlsec.Error):
            context.sign(signature)
        return str(etree.tostring(root), "utf-8")

    return made


def _same_xml_id(root: Any) -> None:
    """libxml2 takes an `xml:id` for an ID as soon as it parses the attribute."""
    root.find(f"{{{SAML}}}Issuer").set("{http://www.w3.org/XML/1998/namespace}id", root.get("ID"))


def _evil(root: Any) -> Any:
    """An unsigned request of the attacker, otherwise like a good one."""
    evil = etree.fromstring(authn_request(ID="_evil", AssertionConsumerServiceURL=_EVIL).encode())
    del root
    return evil


def _wrapped(place: str) -> Callable[[], str]:  # noqa: C901 - a list
    """Signature wrapping: the signed request survives in another place, and the attacker's stands in the place that is read."""

    def made() -> str:
        good = etree.fromstring(_good().encode())
        evil = _evil(good)
        signature = good.find(f"{{{DS}}}Signature")
        match place:
            case "extensions":
                etree.SubElement(evil, f"{{{SAMLP}}}Extensions").append(good)
            case "child":
                evil.append(good)
            case "first child":
                evil.insert(0, good)
            case "signature moved":
                good.remove(signature)
                evil.insert(1, signature)
                etree.SubElement(evil, f"{{{SAMLP}}}Extensions").append(good)
            case "in the signature":
                good.remove(signature)
                evil.insert(1, signature)
                etree.SubElement(signature, f"{{{DS}}}Object").append(good)
            case "same id":
                evil.set("ID", good.get("ID"))
                etree.SubElement(evil, f"{{{SAMLP}}}Extensions").append(good)
            case "same id, signature moved":
                evil.set("ID", good.get("ID"))
                good.remove(signature)
                evil.insert(1, signature)
                etree.SubElement(evil, f"{{{SAMLP}}}Extensions").append(good)
            case "subject":
                etree.SubElement(evil, f"{{{SAML}}}Subject").append(good)
            case "two roots":
                return str(etree.tostring(evil) + etree.tostring(good), "utf-8")
            case _:
                raise AssertionError(place)
        return str(etree.tostring(evil), "utf-8")

    return made


def _set(path: str, name: str, value: str) -> Callable[[Any], None]:
    def change(signature: Any) -> None:
        signature.find(path, {"ds": DS}).set(name, value)

    return change


def _transform(algorithm: str) -> Callable[[Any], None]:
    def change(signature: Any) -> None:
        transforms = signature.find(".//ds:Transforms", {"ds": DS})
        etree.SubElement(transforms, f"{{{DS}}}Transform").set("Algorithm", algorithm)

    return change


def _xslt(signature: Any) -> None:
    transforms = signature.find(".//ds:Transforms", {"ds": DS})
    one = etree.SubElement(transforms, f"{{{DS}}}Transform")
    one.set("Algorithm", "http://www.w3.org/TR/1999/REC-xslt-19991116")
    etree.SubElement(one, "{http://www.w3.org/1999/XSL/Transform}stylesheet")


def _own_key(root: Any) -> None:
    """Signed by a stranger, whose certificate is in KeyInfo."""
    stranger = etree.fromstring(signed(authn_request(), pair("stranger")).encode())
    for child in list(root):
        root.remove(child)
    for name, value in stranger.attrib.items():
        root.set(name, value)
    for child in list(stranger):
        root.append(child)


def _second_reference(signature: Any) -> None:
    information = signature[0]
    information.append(deepcopy(information[-1]))


def _doctype(inside: str, body: str = "") -> Callable[[], str]:
    return lambda: f"<!DOCTYPE r [{inside}]>" + authn_request(inside=body)


_POSTED: Final[list[Attack]] = [
    ("unsigned", authn_request),
    ("signed by a stranger", lambda: signed(authn_request(), pair("stranger"))),
    ("signed by a stranger, with its key along", _changed(_own_key)),
    ("wrapped in extensions", _wrapped("extensions")),
    ("wrapped as a child", _wrapped("child")),
    ("wrapped as the first child", _wrapped("first child")),
    ("wrapped, with the signature moved", _wrapped("signature moved")),
    ("wrapped in ds:Object", _wrapped("in the signature")),
    ("wrapped under the same ID", _wrapped("same id")),
    ("wrapped under the same ID, with the signature moved", _wrapped("same id, signature moved")),
    ("wrapped in a subject", _wrapped("subject")),
    ("two roots", _wrapped("two roots")),
    ("another address after signing", _swapped(ACS, _EVIL)),
    ("another id after signing", _changed(lambda root: root.set("ID", "_other"))),
    ("an attribute added after signing", _changed(lambda root: root.set("ForceAuthn", "true"))),
    ("an element added after signing", _changed(lambda root: etree.SubElement(root, f"{{{SAMLP}}}NameIDPolicy"))),
    ("a digest of nothing", _changed(lambda root: setattr(root.find(".//{*}DigestValue"), "text", ""))),
    ("a signature of nothing", _changed(lambda root: setattr(root.find(".//{*}SignatureValue"), "text", ""))),
    ("no SignedInfo", _changed(lambda root: root.find("{*}Signature").remove(root.find(".//{*}SignedInfo")))),
    ("an empty signature", _changed(lambda root: root.find("{*}Signature").clear())),
    ("two signatures", _changed(lambda root: root.append(etree.fromstring(etree.tostring(root.find("{*}Signature")))))),
    ("two references", _resigned(_second_reference)),
    ("a reference to everything", _resigned(_set(".//ds:Reference", "URI", ""))),
    ("a reference to another file", _resigned(_set(".//ds:Reference", "URI", "file:///etc/passwd"))),
    ("a reference to another host", _resigned(_set(".//ds:Reference", "URI", "http://127.0.0.1:1/x"))),
    ("a reference by XPointer", _resigned(_set(".//ds:Reference", "URI", "#xpointer(/)"))),
    ("a reference without an address", _resigned(lambda one: one.find(".//{*}Reference").attrib.pop("URI"))),
    ("a third transform", _resigned(_transform(_EXCLUSIVE))),
    ("XPath", _resigned(_transform("http://www.w3.org/TR/1999/REC-xpath-19991116"))),
    ("XPath filter", _resigned(_transform("http://www.w3.org/2002/06/xmldsig-filter2"))),
    ("base64", _resigned(_transform("http://www.w3.org/2000/09/xmldsig#base64"))),
    ("XSLT", _resigned(_xslt)),
    ("no transforms", _resigned(lambda one: one.find(".//{*}Reference").remove(one.find(".//{*}Transforms")))),
    ("only the enveloped transform", _resigned(lambda one: one.find(".//{*}Transforms").remove(one.findall(".//{*}Transform")[1]))),
    (
        "inclusive canonicalization",
        _resigned(_set(".//ds:CanonicalizationMethod", "Algorithm", "http://www.w3.org/TR/2001/REC-xml-c14n-20010315")),
    ),
    ("canonicalization with comments", _resigned(_set(".//ds:CanonicalizationMethod", "Algorithm", f"{_EXCLUSIVE}WithComments"))),
    ("RSA-SHA1", _resigned(_set(".//ds:SignatureMethod", "Algorithm", "http://www.w3.org/2000/09/xmldsig#rsa-sha1"))),
    ("RSA-SHA512", _resigned(_set(".//ds:SignatureMethod", "Algorithm", "http://www.w3.org/2001/04/xmldsig-more#rsa-sha512"))),
    ("RSA-MD5", _resigned(_set(".//ds:SignatureMethod", "Algorithm", "http://www.w3.org/2001/04/xmldsig-more#rsa-md5"))),
    ("HMAC with the certificate", _resigned(_set(".//ds:SignatureMethod", "Algorithm", "http://www.w3.org/2000/09/xmldsig#hmac-sha1"))),
    ("SHA-1", _resigned(_set(".//ds:DigestMethod", "Algorithm", "http://www.w3.org/2000/09/xmldsig#sha1"))),
    ("a truncated HMAC", _resigned(lambda one: etree.SubElement(one.find(".//{*}SignatureMethod"), f"{{{DS}}}HMACOutputLength"))),
    ("an xml:id that is the message's ID", _changed(_same_xml_id)),
    ("a document type", _doctype("")),
    ("an internal entity", _doctype('<!ENTITY a "b">')),
    ("an external entity", _doctype('<!ENTITY a SYSTEM "file:///etc/passwd">', "<samlp:Extensions>&a;</samlp:Extensions>")),
    ("a parameter entity", _doctype('<!ENTITY % a SYSTEM "http://127.0.0.1:1/x"> %a;')),
    (
        "a billion laughs",
        _doctype(
            '<!ENTITY a "ha">' + "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefgh", "bcdefghi", strict=True)),
            "<samlp:Extensions>&i;</samlp:Extensions>",
        ),
    ),
    ("an undeclared entity", lambda: authn_request(inside="<samlp:Extensions>&a;</samlp:Extensions>")),
    ("an external document type", lambda: '<!DOCTYPE r SYSTEM "http://127.0.0.1:1/x">' + authn_request()),
    ("a comment in the issuer", lambda: authn_request(issuer="https://crm.example.com/saml<!-- -->.evil.example")),
    ("a comment behind the root", lambda: authn_request() + "<!-- -->"),
    ("CDATA", lambda: authn_request(issuer=f"<![CDATA[{SP}]]>")),
    ("a processing instruction", lambda: authn_request(inside="<?php echo 1 ?>")),
    ("a stylesheet", lambda: '<?xml-stylesheet href="http://127.0.0.1:1/x"?>' + authn_request()),
    ("UTF-16", lambda: authn_request().encode("utf-16")),
    ("UTF-16 as declared", lambda: '<?xml version="1.0" encoding="UTF-16"?>' + authn_request()),
    ("UTF-7 as declared", lambda: '<?xml version="1.0" encoding="UTF-7"?>' + authn_request()),
    ("EBCDIC as declared", lambda: '<?xml version="1.0" encoding="IBM037"?>' + authn_request()),
    ("bytes that are no UTF-8", lambda: authn_request().encode() + b"\xff"),
    ("XML 1.1", lambda: '<?xml version="1.1"?>' + authn_request()),
    ("a NUL", lambda: authn_request(issuer=SP + "\0")),
    ("markup in the issuer", lambda: authn_request(issuer=f"{SP}<b/>")),
    ("no issuer", lambda: authn_request(issuer=None)),
    ("two issuers", lambda: authn_request(inside=f"<saml:Issuer>{SP}</saml:Issuer>")),
    ("another issuer", lambda: authn_request(issuer="https://other.example.com")),
    ("our own issuer", lambda: authn_request(issuer=f"{BASE_URL}/saml/acme/app")),
    ("an issuer in other letters", lambda: authn_request(issuer=SP.upper())),
    ("another destination", lambda: authn_request(Destination="https://other.example.com/sso")),
    ("another service's destination", lambda: authn_request(Destination=f"{BASE_URL}/saml/acme/other/sso")),
    ("another address for the answer", lambda: authn_request(AssertionConsumerServiceURL=_EVIL)),
    ("an address that begins alike", lambda: authn_request(AssertionConsumerServiceURL=f"{ACS}.evil.example")),
    ("an address with a path behind", lambda: authn_request(AssertionConsumerServiceURL=f"{ACS}/../evil")),
    ("an address in other letters", lambda: authn_request(AssertionConsumerServiceURL=ACS.upper())),
    ("an address that is script", lambda: authn_request(AssertionConsumerServiceURL="javascript:alert(1)")),
    ("an empty address", lambda: authn_request(AssertionConsumerServiceURL="")),
    ("too old", lambda: authn_request(IssueInstant=now(minutes=-16))),
    ("from the future", lambda: authn_request(IssueInstant=now(minutes=6))),
    ("no time", lambda: authn_request(IssueInstant=None)),
    ("a local time", lambda: authn_request(IssueInstant="2026-01-01T00:00:00+02:00")),
    ("the end of time", lambda: authn_request(IssueInstant="9999-99-99T99:99:99Z")),
    ("SAML 1.1", lambda: authn_request(Version="1.1")),
    ("no version", lambda: authn_request(Version=None)),
    ("no ID", lambda: authn_request(ID=None)),
    ("an ID with a line break", lambda: authn_request(ID="_a&#10;b")),
    ("an ID with markup", lambda: authn_request(ID="&quot;&gt;&lt;script&gt;")),
    ("an ID of a kilobyte", lambda: authn_request(ID=f"_{'a' * 1024}")),
    ("a response for a request", lambda: authn_request().replace("AuthnRequest", "Response")),
    ("a logout request for a request", lambda: authn_request().replace("AuthnRequest", "LogoutRequest")),
    ("another namespace", lambda: authn_request().replace(SAMLP, "urn:oasis:names:tc:SAML:1.0:protocol")),
    ("an attribute query", lambda: authn_request().replace("AuthnRequest", "AttributeQuery")),
    ("a flag that is none", lambda: authn_request(ForceAuthn="maybe")),
    ("ten thousand elements", lambda: authn_request(inside="<a/>" * 10_000)),
    ("elements within elements", lambda: authn_request(inside="<a>" * 5000 + "</a>" * 5000)),
    ("thousands of attributes", lambda: authn_request(inside="<a " + " ".join(f"a{one}=''" for one in range(4000)) + "/>")),
    ("the same attribute twice", lambda: authn_request().replace("Version=", 'Version="2.0" Version=')),
    ("a megabyte", lambda: authn_request(inside=f"<samlp:Extensions>{'x' * (1 << 20)}</samlp:Extensions>")[:130_000]),
    ("not closed", lambda: authn_request()[:-5]),
    ("nothing", lambda: ""),
    ("no XML", lambda: "SAMLRequest"),
]


@pytest.mark.parametrize(("name", "attack"), _POSTED, ids=[name for name, _ in _POSTED])
async def test_a_hostile_form_is_refused(provider: Providing, name: str, attack: Callable[[], str | bytes]) -> None:
    """All requests must be signed here. Attacks that a signature would not stop are also tried where no signature is needed, so that their
    refusal does not come from the missing signature.
    """
    await provider.ready()
    document = attack()
    raw = document.encode() if isinstance(document, str) else document
    strict = "true" if b"Signature" in raw or name == "unsigned" else "false"
    (await provider.upload(metadata(signing=(pair(),), AuthnRequestsSigned=strict))).ok()
    browser = provider.signed_in(provider.people.add("ada@example.org"))
    # The libraries are imported for the first document.
    sent(await browser.request("POST", sso(), in_form(_good())))
    before = provider.people.rows("select * from login_events")
    # Processor time, because other programs may keep the processor busy.
    began = time.process_time()
    answer = await browser.request("POST", sso(), in_form(raw))
    took = time.process_time() - began
    assert answer.status in {400, 413}, (name, answer.body)
    assert answer.header("location") is None
    assert b"SAMLResponse" not in answer.body
    assert b"evil" not in answer.body
    assert provider.people.rows("select * from login_events") == before
    assert took < 1, name
    if answer.status == 400 and raw:
        (newest, *_) = await provider.exchanges()
        assert (newest["succeeded"], bool(newest["reason"])) == (False, True)


def _bomb() -> str:
    packing = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = b"".join(packing.compress(b"<" * (1 << 20)) for _ in range(20)) + packing.flush()
    return b64encode(packed).decode()


def _addressed(query: str) -> str:
    return f"{sso()}?{query}"


def _twice(name: str) -> str:
    query = in_query(authn_request(), "a", signer=pair())
    part = next(one for one in query.split("&") if one.startswith(f"{name}="))
    return f"{query}&{part}"


_ADDRESSED: Final[list[tuple[str, Callable[[], str]]]] = [
    ("nothing", lambda: ""),
    ("unsigned", lambda: in_query(authn_request())),
    ("signed by a stranger", lambda: in_query(authn_request(), signer=pair("stranger"))),
    ("another state after signing", lambda: in_query(authn_request(), "a", signer=pair()).replace("RelayState=a", "RelayState=b")),
    ("a state added after signing", lambda: "RelayState=b&" + in_query(authn_request(), signer=pair())),
    (
        "another request after signing",
        lambda: f"SAMLRequest={quote(deflated(authn_request()))}&" + in_query(authn_request(), signer=pair()).partition("&")[2],
    ),
    ("the request twice", lambda: _twice("SAMLRequest")),
    ("the state twice", lambda: _twice("RelayState")),
    ("the signature twice", lambda: _twice("Signature")),
    ("the algorithm twice", lambda: _twice("SigAlg")),
    (
        "RSA-SHA1",
        lambda: in_query(authn_request(), signer=pair()).replace("2001%2F04%2Fxmldsig-more%23rsa-sha256", "2000%2F09%2Fxmldsig%23rsa-sha1"),
    ),
    ("no algorithm", lambda: "&".join(one for one in in_query(authn_request(), signer=pair()).split("&") if not one.startswith("SigAlg"))),
    ("a signature of nothing", lambda: in_query(authn_request(), signer=pair()).partition("Signature=")[0] + "Signature="),
    ("a signature that is no base64", lambda: in_query(authn_request(), signer=pair()).partition("Signature=")[0] + "Signature=%21"),
    ("a signature in the message", lambda: in_query(_good())),
    ("a compressed bomb", lambda: urlencode({"SAMLRequest": _bomb()})),
    ("not compressed", lambda: urlencode({"SAMLRequest": b64encode(authn_request().encode()).decode()})),
    ("compressed with a header", lambda: urlencode({"SAMLRequest": b64encode(zlib.compress(authn_request().encode())).decode()})),
    ("something behind", lambda: urlencode({"SAMLRequest": b64encode(b64decode(deflated(authn_request())) + b"more").decode()})),
    ("cut off", lambda: urlencode({"SAMLRequest": b64encode(b64decode(deflated(authn_request()))[:-8]).decode()})),
    ("no base64", lambda: "SAMLRequest=%00%FF%21"),
    ("another encoding", lambda: in_query(authn_request(), signer=pair()) + "&SAMLEncoding=urn%3Aother"),
    ("a long state", lambda: in_query(authn_request(), "x" * 5000, signer=pair())),
    ("a response", lambda: in_query(authn_request(), signer=pair(), name="SAMLResponse")),
]


@pytest.mark.parametrize(("name", "attack"), _ADDRESSED, ids=[name for name, _ in _ADDRESSED])
async def test_a_hostile_address_is_refused(provider: Providing, name: str, attack: Callable[[], str]) -> None:
    await provider.ready()
    (await provider.upload(metadata(signing=(pair(),), AuthnRequestsSigned="true"))).ok()
    browser = provider.signed_in(provider.people.add("ada@example.org"))
    sent(await browser.request("GET", asking(signer=pair())))
    before = provider.people.rows("select * from login_events")
    answer = await browser.request("GET", _addressed(attack()))
    assert answer.status == 400, (name, answer.body)
    assert b"SAMLResponse" not in answer.body
    assert provider.people.rows("select * from login_events") == before


@pytest.mark.parametrize(
    "encoding",
    [
        "urn%3Aoasis%3Anames%3Atc%3ASAML%3A2.0%3Abindings%3AURL-Encoding%3ADEFLATE",
        "urn%3aoasis%3anames%3atc%3aSAML%3a2.0%3abindings%3aURL-Encoding%3aDEFLATE",
        "urn:oasis:names:tc:SAML:2.0:bindings:URL-Encoding:DEFLATE",
        "urn:oasis:names:tc:%53AML:2.0:bindings:URL-Encoding:DEFLATE",
    ],
)
async def test_an_encoding_is_the_same_however_it_is_escaped(provider: Providing, encoding: str) -> None:
    await provider.ready()
    (await provider.upload(metadata(signing=(pair(),), AuthnRequestsSigned="true"))).ok()
    browser = provider.signed_in(provider.people.add())
    assert sent(await browser.request("GET", f"{asking(signer=pair())}&SAMLEncoding={encoding}")).status == "Success"


def test_the_corpus_is_large() -> None:
    assert len(_POSTED) + len(_ADDRESSED) >= 60


def _envelopes() -> Iterator[Envelope]:
    for _, attack in _POSTED:
        document = attack()
        yield Envelope(SamlBinding.POST, b64encode(document.encode() if isinstance(document, str) else document).decode())
    yield Envelope(SamlBinding.REDIRECT, _bomb())


def test_reading_hostile_documents_is_quick_and_leaves_no_memory() -> None:
    """In processor time of this thread, so that a busy machine cannot fail it."""
    envelopes = list(_envelopes())
    certificates = (pair().certificate,)

    def read_all() -> float:
        slowest = 0.0
        for envelope in envelopes:
            began = time.thread_time()
            with suppress(MessageRefused):
                reading.read_authn_request(envelope, certificates)
            slowest = max(slowest, time.thread_time() - began)
        return slowest

    read_all()
    tracemalloc.start()
    slowest = min(read_all() for _ in range(3))
    before, _ = tracemalloc.get_traced_memory()
    for _ in range(5):
        read_all()
    after, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert slowest < 0.05
    assert after - before < 200_000
    assert peak < 20 << 20


async def test_the_loop_goes_on_while_hostile_documents_are_read(provider: Providing) -> None:
    """Other threads do this work, so the event loop turns between the beginning and the end of each document."""
    documents = provider.postern.federation.saml.documents
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.sleep(0)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(turn)
        for envelope in _envelopes():
            before = turns
            with suppress(MessageRefused):
                await documents.read_authn_request(envelope, (pair("another").certificate,))
            assert turns > before
        nursery.cancel_scope.cancel()


_TEXT: Final = st.text(
    alphabet=st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="\ufffe\uffff"), min_size=1, max_size=80
)


async def test_the_loop_goes_on_while_large_forms_are_read(provider: Providing, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stranger's form, with every byte of it percent-encoded, took more than fifty milliseconds."""
    await provider.ready(slo_url=SLO)
    loop = threading.get_ident()
    beside: list[tuple[str, bool]] = []

    def noted(name: str, work: Any, *given: Any) -> Any:
        beside.append((name, threading.get_ident() != loop))
        return work(*given)

    for name in ("_in_form", "_address"):
        monkeypatch.setattr(saml, name, partial(noted, name, getattr(saml, name)))
    document = logout_request("ada@example.org").replace("</saml:NameID>", f"</saml:NameID><a>{'x' * 40_000}</a>")
    packed = b64encode(document.encode()).decode()
    body = f"SAMLRequest={''.join(f'%{ord(letter):02X}' for letter in packed)}".encode()
    headers = [("content-type", "application/x-www-form-urlencoded"), ("sec-fetch-site", "cross-site")]
    assert (await provider.unlimited.request("POST", slo(), body=body, headers=headers)).status == 303
    assert beside == [("_in_form", True), ("_address", True)]
    for path in (sso(), slo()):
        assert (await provider.unlimited.request("POST", path, body=b"&" * 190_000, headers=headers)).status == 400


@pytest.mark.parametrize(
    ("form", "there"),
    [
        ("SAMLResponse=a", True),
        ("a&SAMLResponse=", True),
        ("a&SAMLResponse&b", True),
        ("SAMLResponse", True),
        ("SAMLResponses=a", False),
        ("aSAMLResponse=a", False),
        ("a=SAMLResponse", False),
        ("", False),
    ],
)
def test_a_message_is_there_by_the_name_of_its_field(form: str, there: bool) -> None:
    assert saml.has(form.encode(), "SAMLResponse") is there


@given(email=_TEXT, name=_TEXT, value=st.text(max_size=50))
def test_what_goes_out_is_exact_or_refused_in_words(email: str, name: str, value: str) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    assertion = SamlAssertion(
        id="_a",
        name_id=NameId(text=email, format=NameIdFormat.EMAIL),
        audience=SP,
        recipient=ACS,
        in_response_to="_r",
        session_index="s",
        session_ends_at=at,
        authenticated_at=at,
        context_class="c",
        attributes={name: [value]},
    )
    response = Response(id="_x", issuer="i", destination=ACS, in_response_to="_r", issued_at=at, status=Status.SUCCESS, assertion=assertion)
    signer = KeyPair(pair().certificate, Secret(pair().key))
    try:
        packed = write_response(response, write_assertion(response, signer), signer)
    except RequestDeclined as refusal:
        assert any(one not in string.printable for one in name + value) or any(ord(one) < 32 for one in name + value)
        assert "characters that XML cannot have" in refusal.reason  # noqa: PT017 - many are taken
        return
    root = etree.fromstring(b64decode(packed))
    assert root.find(".//{*}NameID").text == email
    attribute = root.find(".//{*}Attribute")
    assert attribute.get("Name") == name
    # A parser turns line breaks of other systems into its own.
    assert (attribute[0].text or "") == value
    verifier().verify(etree.tostring(root), x509_cert=pair().certificate, id_attribute="ID")


def test_megabytes_go_out_exact() -> None:
    text = "<&>\"'" * 300_000

    assert etree.fromstring(worded("saml:b", text, declared=True), etree.XMLParser(huge_tree=True)).text == text


async def test_another_tenant_learns_nothing(provider: Providing) -> None:
    await provider.ready()
    globex = provider.tenants.add("globex")
    theirs = provider.resident(globex, "owner")
    provider.tenants.service(globex, "app")
    token = await provider.people.token(theirs)
    for method, suffix in (("GET", ""), ("GET", "/certificate"), ("GET", "/exchanges"), ("DELETE", ""), ("POST", "/certificate")):
        acme = await provider.unlimited.request(method, f"/api/organizations/acme/services/app/saml{suffix}", token=token)
        assert acme.status == 403
    own = await provider.unlimited.get("/api/organizations/globex/services/app/saml", token=token)
    assert own.ok()["entity_id"] is None
    # A request for one service is refused at another organization's service of the same slug.
    answer = await provider.signed_in(provider.people.add()).request("GET", asking().replace("/acme/", "/globex/", 1))
    assert answer.status == 404

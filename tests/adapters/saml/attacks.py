"""Answers that nobody may get through with, each with the check that must refuse it."""

from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from typing import Any, Final

import xmlsec
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, OAEP

from core.domain.identity.upstream.connection_tests import CheckName
from core.domain.identity.upstream.saml.assertions import LONGEST_RESPONSE
from ops.stand_ins.saml import (
    ACS,
    CONNECTION,
    DIRECTORY,
    DS,
    ENVELOPED,
    EXCLUSIVE,
    SAML,
    SAMLP,
    XENC,
    assertion,
    at,
    conditions,
    confirmation,
    directory,
    document,
    made,
    name_id,
    pair,
    response,
    sign,
    signed_assertion,
    statement,
    template,
    written,
)
from tests.adapters.saml import wrapping
from tests.adapters.saml.answering import XENC11, answer, encrypted, expected, signed_response

Attack = tuple[str, str, dict[str, Any], CheckName, str]
"""Its name, the answer, what else is expected than usually, and the check and fault that refuse it."""
_C: Final = CheckName
_STATUS: Final = "urn:oasis:names:tc:SAML:2.0:status:"
OTHER_REQUEST: Final = "_fedcba9876543210"
_XSLT: Final = "http://www.w3.org/TR/1999/REC-xslt-19991116"


def _set(path: str, name: str, value: str) -> Callable[[Any], None]:
    def change(signature: Any) -> None:
        signature.find(path, {"ds": DS}).set(name, value)

    return change


def formed(change: Callable[[Any], None]) -> str:
    """A signature of another form, made with the right key: the form alone must be enough."""
    root = document(assertion())
    signature = template(f"#{root.get('ID')}", certificate=directory())
    root.insert(1, signature)
    change(signature)
    context = xmlsec.SignatureContext()
    context.key = xmlsec.Key.from_memory(directory().key, xmlsec.constants.KeyDataFormatPem)
    context.register_id(root, "ID")
    # The library refuses some of the forms as well, and leaves the values empty.
    with suppress(xmlsec.Error):
        context.sign(signature)
    return response(written(root))


def changed(change: Callable[[Any], None], text: str | None = None) -> str:
    """A good answer that was changed after it was signed."""
    root = document(text or answer())
    change(root)
    return written(root)


def _transform(algorithm: str, inside: str = "") -> Callable[[Any], None]:
    def change(signature: Any) -> None:
        transforms = signature.find(".//ds:Transforms", {"ds": DS})
        transforms.append(document(f'<ds:Transform xmlns:ds="{DS}" Algorithm="{algorithm}">{inside}</ds:Transform>'))

    return change


def _prefixes(text: str) -> Callable[[Any], None]:
    """For the canonicalization. It may have such a list, of a few prefixes."""
    more = f'<e:InclusiveNamespaces xmlns:e="{EXCLUSIVE}" PrefixList="{text}"/>'
    return lambda signature: signature.findall(".//{*}Transform")[1].append(document(more))


def _into(path: str) -> Callable[[Any], None]:
    return lambda root: root.find(path).append(document("<x/>"))


def _without(path: str) -> Callable[[Any], None]:
    def change(root: Any) -> None:
        found = root.find(path, {"ds": DS, "a": SAML, "p": SAMLP})
        found.getparent().remove(found)

    return change


def _text(path: str, text: str) -> Callable[[Any], None]:
    def change(root: Any) -> None:
        root.find(path, {"ds": DS, "a": SAML, "p": SAMLP}).text = text

    return change


def _attribute(path: str, name: str, value: str) -> Callable[[Any], None]:
    def change(root: Any) -> None:
        (root if path == "." else root.find(path, {"ds": DS, "a": SAML, "p": SAMLP})).set(name, value)

    return change


def _twice(path: str) -> Callable[[Any], None]:
    def change(root: Any) -> None:
        found = root.find(path, {"ds": DS, "a": SAML, "p": SAMLP})
        found.addnext(deepcopy(found))

    return change


def _hmac(signature: Any) -> None:
    """The certificate as a shared secret."""
    _set(".//ds:SignatureMethod", "Algorithm", "http://www.w3.org/2001/04/xmldsig-more#hmac-sha256")(signature)


def _hmac_made() -> str:
    """Really computed: the library signs with the certificate's text as its secret."""
    root = document(assertion())
    signature = template("#_a1", method="http://www.w3.org/2001/04/xmldsig-more#hmac-sha256")
    root.insert(1, signature)
    context = xmlsec.SignatureContext()
    context.key = xmlsec.Key.from_binary_data(xmlsec.constants.KeyDataHmac, directory().certificate.encode())
    context.register_id(root, "ID")
    context.sign(signature)
    return response(written(root))


def _object(signature: Any) -> None:
    signature.append(document(f'<ds:Object xmlns:ds="{DS}"/>'))


def _own_key() -> str:
    """Signed by a stranger, whose certificate is in KeyInfo."""
    return _answer_by("stranger")


def _answer_by(name: str, **more: Any) -> str:
    return response(signed_assertion(None, made(name), **more))


def _code(uri: str) -> str:
    return f'<samlp:StatusCode Value="{uri}"/>'


def _flipped(cipher: bytes) -> bytes:
    return cipher[:20] + bytes([cipher[20] ^ 1]) + cipher[21:]


def _about_form() -> Iterator[Attack]:
    """Documents that are none."""
    for name, text in (
        ("nothing", ""),
        ("no XML", "hello"),
        ("a document type", f"<!DOCTYPE r []>{answer()}"),
        ("an entity", f'<!DOCTYPE r [<!ENTITY e "p-666">]>{answer().replace("p-1", "&e;")}'),
        ("an external entity", f'<!DOCTYPE r [<!ENTITY e SYSTEM "file:///etc/passwd">]>{answer().replace("p-1", "&e;")}'),
        ("a parameter entity", f'<!DOCTYPE r [<!ENTITY % e SYSTEM "http://127.0.0.1:1/"> %e;]>{answer()}'),
        ("entities that grow", '<!DOCTYPE r [<!ENTITY a "x"><!ENTITY b "&a;&a;"><!ENTITY c "&b;&b;">]><r>&c;</r>'),
        ("a comment in the name", answer().replace("p-1", "p-1<!---->666")),
        ("a comment in the address", answer().replace("ada@example.com", "ada@example.com<!-- -->.evil.example")),
        ("a comment in the audience", answer().replace(CONNECTION, f"{CONNECTION}<!-- -->", 1)),
        ("a processing instruction in the name", answer().replace("p-1", "p-1<?x?>")),
        ("CDATA in the name", answer().replace("p-1", "<![CDATA[p-1]]>")),
        ("an element in the name", answer(assertion(name=name_id("p-1<saml:b/>666")))),
        ("a stylesheet before it", f'<?xml-stylesheet href="x"?>{answer()}'),
        ("another encoding", answer().encode("utf-16").decode("latin-1")),
        ("control characters", answer().replace("p-1", "p\x001")),
        ("two roots", answer() + answer()),
        ("another document", assertion()),
        ("another protocol", answer().replace("SAML:2.0:protocol", "SAML:1.0:protocol")),
        ("a request", answer().replace("samlp:Response", "samlp:AuthnRequest")),
        ("the other namespace's Response", f'<Response xmlns="{SAML}"/>'),
        ("another version", response(Version="1.1")),
        ("another version of the assertion", signed_response(response(assertion(Version="1.1")))),
        ("no version", response(Version=None)),
        ("no ID", response(ID=None)),
        ("an ID that is none", response(ID="1 2")),
        ("an endless ID", response(ID="_" + "a" * 300)),
        ("an assertion's ID that is none", signed_response(response(assertion(ID="a b")))),
        ("Advice", answer(assertion(inside="<saml:Advice/>"))),
        ("a decision about rights", answer(assertion(inside="<saml:AuthzDecisionStatement/>"))),
        ("no status", answer().replace("samlp:Status>", "samlp:State>")),
        ("no status code", response(status="")),
        ("no assertion", response("")),
        ("two assertions", response(signed_assertion() + signed_assertion(assertion(ID="_a2")))),
        (
            "an assertion with a failure",
            response(signed_assertion(), status=_code("urn:oasis:names:tc:SAML:2.0:status:Responder")),
        ),
        ("two subjects", answer(assertion(inside=f"<saml:Subject>{name_id('p-666')}</saml:Subject>"))),
        ("two names", answer(assertion(name=name_id() + name_id("p-666")))),
        ("two Issuers", answer(assertion(inside=f"<saml:Issuer>{DIRECTORY}</saml:Issuer>"))),
        ("two Conditions", answer(assertion(inside=conditions()))),
        ("two AuthnStatements", answer(assertion(inside=statement()))),
        ("two StatusCodes", response(status=_code("a") * 2)),
        ("too many elements", answer(assertion(attributes="<saml:Attribute/>" * 5001))),
        ("too many attributes", f"<r{' '.join(f' a{n}=_' for n in range(101))}/>".replace("_", "''")),
        ("too deep", "<a>" * 300 + "</a>" * 300),
        ("too long", "<a>" + "x" * LONGEST_RESPONSE + "</a>"),
        ("a name and an encrypted name", answer(assertion(name=name_id() + encrypted(name_id("p-2"), name="EncryptedID")))),
    ):
        yield name, text, {}, _C.WELL_FORMED, "malformed"


def _about_signatures() -> Iterator[Attack]:
    form, signature = "signature_form", _C.SIGNATURE
    for name, change in {
        "two references": _twice(".//ds:Reference"),
        "no reference": _without(".//ds:Reference"),
        "a reference to everything": _set(".//ds:Reference", "URI", ""),
        "a reference without an address": lambda one: one.find(".//{*}Reference").attrib.pop("URI"),
        "a reference to another element": _set(".//ds:Reference", "URI", "#_r1"),
        "a reference to another file": _set(".//ds:Reference", "URI", "file:///etc/passwd"),
        "a reference to another host": _set(".//ds:Reference", "URI", "http://127.0.0.1:1/x"),
        "a reference by XPointer": _set(".//ds:Reference", "URI", "#xpointer(/)"),
        "a reference by XPointer to the ID": _set(".//ds:Reference", "URI", "#xpointer(id('_a1'))"),
        "XPath": _transform("http://www.w3.org/TR/1999/REC-xpath-19991116", f'<ds:XPath xmlns:ds="{DS}">false()</ds:XPath>'),
        "XPath filter": _transform("http://www.w3.org/2002/06/xmldsig-filter2"),
        "XSLT": _transform(_XSLT, '<s:stylesheet xmlns:s="http://www.w3.org/1999/XSL/Transform"/>'),
        "base64": _transform(f"{DS}base64"),
        "a third transform": _transform(EXCLUSIVE),
        "no transforms": _without(".//ds:Transforms"),
        "only the enveloped transform": lambda one: one.find(".//{*}Transforms").remove(one.findall(".//{*}Transform")[1]),
        "only the canonicalization": lambda one: one.find(".//{*}Transforms").remove(one.findall(".//{*}Transform")[0]),
        "the enveloped transform twice": lambda one: one.findall(".//{*}Transform")[1].set("Algorithm", ENVELOPED),
        "a transform with content": _into(".//{*}Transform"),
        "endless prefixes": _prefixes("p " * 129),
        "two lists of prefixes": lambda one: (_prefixes("xs")(one), _prefixes("xs")(one)),
        "inclusive canonicalization": _set(".//ds:CanonicalizationMethod", "Algorithm", "http://www.w3.org/TR/2001/REC-xml-c14n-20010315"),
        "canonicalization with comments": _set(".//ds:CanonicalizationMethod", "Algorithm", f"{EXCLUSIVE}WithComments"),
        "a canonicalization with content": _into(".//{*}CanonicalizationMethod"),
        "ds:Object": _object,
        "no SignedInfo": _without("ds:SignedInfo"),
        "two SignedInfos": _twice("ds:SignedInfo"),
        "nothing in it": lambda one: one.clear(),
        "an unknown part": _into("."),
    }.items():
        yield f"signature: {name}", formed(change), {}, signature, form
    both = document(answer())
    sign(both, directory())
    for name, text in {
        "twice": changed(_twice("a:Assertion/ds:Signature")),
        "in the subject": changed(lambda root: root.find(".//{*}Subject").append(root.find(".//{*}Signature"))),
        "in the status": changed(lambda root: root.find("{*}Status").append(root.find(".//{*}Signature"))),
        "of the assertion, for the response": changed(lambda root: root.insert(1, root.find(".//{*}Signature"))),
        "under an ID that is there twice": changed(_attribute("a:Assertion", "ID", "_r1"), signed_response(response())),
        "under an xml:id": changed(_attribute("p:Status", "{http://www.w3.org/XML/1998/namespace}id", "_a1")),
        "under an Id": changed(_attribute("p:Status", "Id", "_a1")),
        "under an ID that is gone": changed(lambda root: root.find("{*}Assertion").set("ID", "_a2")),
    }.items():
        yield f"signature {name}", text, {}, signature, form
    broken, unknown = "broken_signature", "unknown_certificate"
    for name, text, fault in (
        ("none", response(), "unsigned"),
        ("stripped", changed(_without("a:Assertion/ds:Signature")), "unsigned"),
        ("stripped, with an encrypted name", response(assertion(name=encrypted(name_id(), name="EncryptedID"))), "unsigned"),
        ("encrypted and not signed", response(encrypted(assertion())), "unsigned"),
        ("by a stranger", _answer_by("stranger"), unknown),
        ("by a stranger, who names the directory's certificate", _answer_by("stranger", told=directory()), broken),
        ("by a stranger, who names none", changed(_without(".//ds:KeyInfo"), _answer_by("stranger")), broken),
        ("by our own key", response(signed_assertion(None, pair("ours"))), unknown),
        ("by our own key, which it names as the directory's", response(signed_assertion(None, pair("ours"), told=directory())), broken),
        ("by the directory's key for encryption", _answer_by("directory's encryption"), unknown),
        ("of the response by a stranger", _signed_over(made("stranger")), unknown),
        ("without a value", changed(_text(".//ds:SignatureValue", "")), broken),
        ("without a digest", changed(_text(".//ds:DigestValue", "")), broken),
        ("with another value", changed(_text(".//ds:SignatureValue", b64encode(bytes(256)).decode())), broken),
        ("with another name", answer().replace("p-1", "p-666"), broken),
        ("with another address", answer().replace("ada@", "eve@"), broken),
        ("with another audience", answer().replace(f"<saml:Audience>{CONNECTION}", "<saml:Audience>https://other.example"), broken),
        ("with another time", changed(_attribute(".//a:Conditions", "NotOnOrAfter", at(days=900))), broken),
        (
            "with another namespace",
            answer().replace(f'<saml:Assertion xmlns:saml="{SAML}"', f'<saml:Assertion xmlns:saml="{SAML}" a="1"'),
            broken,
        ),
        (
            "with one more attribute",
            changed(lambda root: root.find(".//{*}AttributeStatement").append(document(f'<a:Attribute xmlns:a="{SAML}"/>'))),
            broken,
        ),
        ("over other text: white space", answer().replace("<saml:Subject>", "<saml:Subject> "), broken),
    ):
        yield f"signature {name}", text, {}, signature, fault
    yield "signature by a certificate of another connection", _answer_by("elsewhere"), {}, signature, unknown
    yield "no certificate is known", answer(), {"certificates": ()}, signature, "no_certificates"


def _signed_over(signer: Any) -> str:
    """A good assertion in a response that somebody else has signed: all signatures must be good."""
    root = document(answer())
    sign(root, signer)
    return written(root)


def _about_algorithms() -> Iterator[Attack]:
    algorithm = _C.ALGORITHM
    methods = {
        "RSA-SHA1": f"{DS}rsa-sha1",
        "RSA-MD5": "http://www.w3.org/2001/04/xmldsig-more#rsa-md5",
        "DSA-SHA1": f"{DS}dsa-sha1",
        "HMAC with SHA-1": f"{DS}hmac-sha1",
        "none": "",
        "nonsense": "http://example.com/rsa-sha256",
        "another in its name": "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256 ",
    }
    for name, uri in methods.items():
        yield f"method: {name}", formed(_set(".//ds:SignatureMethod", "Algorithm", uri)), {}, algorithm, "weak_algorithm"
    yield "method: HMAC with the certificate", _hmac_made(), {}, algorithm, "weak_algorithm"
    yield (
        "method: with content",
        formed(lambda one: one.find(".//{*}SignatureMethod").append(document("<x/>"))),
        {},
        algorithm,
        "weak_algorithm",
    )
    for name, uri in {"SHA-1": f"{DS}sha1", "MD5": "http://www.w3.org/2001/04/xmldsig-more#md5", "none": ""}.items():
        yield f"digest: {name}", formed(_set(".//ds:DigestMethod", "Algorithm", uri)), {}, algorithm, "weak_algorithm"
    yield (
        "digest: with content",
        formed(lambda one: one.find(".//{*}DigestMethod").append(document("<x/>"))),
        {},
        algorithm,
        "weak_algorithm",
    )
    sha1 = signed_response(answer(), method=f"{DS}rsa-sha1", digest=f"{DS}sha1")
    yield "SHA-1 beside a strong signature", sha1, {}, algorithm, "weak_algorithm"
    for kind in ("rsa1024", "p192"):
        weak = made(f"weak {kind}", kind)
        method = (
            "http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha256" if kind == "p192" else "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256"
        )
        text = response(signed_assertion(None, weak, method=method))
        yield f"a key that is too short: {kind}", text, {"certificates": (weak.certificate,)}, algorithm, "weak_key"
    ended, coming = made("ended", ends=-1), made("coming", begins=3600)
    certificate = _C.CERTIFICATE
    by_ended = response(signed_assertion(None, ended))
    yield "a certificate that has ended", by_ended, {"certificates": (ended.certificate,)}, certificate, "certificate_ended"
    both = {"certificates": (directory().certificate, ended.certificate)}
    yield "a certificate that has ended, beside a good one", by_ended, both, certificate, "certificate_ended"
    root = document(answer())
    sign(root, ended)
    yield "two signatures, and one certificate has ended", written(root), both, certificate, "certificate_ended"
    text = response(signed_assertion(None, coming))
    yield "a certificate to come", text, {"certificates": (coming.certificate,)}, certificate, "certificate_not_yet"


def _about_encryption() -> Iterator[Attack]:
    encryption, broken, weak = _C.ENCRYPTION, "broken_encryption", "weak_encryption"
    good = signed_assertion()
    sha1 = MGF1(hashes.SHA1())  # noqa: S303 - the default
    for name, text, fault in (
        ("for somebody else", encrypted(good, made("stranger")), "no_key_opens"),
        ("for the directory itself", encrypted(good, directory()), "no_key_opens"),
        ("with RSA 1.5", encrypted(good, wrapping=f"{XENC}rsa-1_5"), weak),
        ("with a method that is none", encrypted(good, wrapping=""), weak),
        ("with triple DES", encrypted(good).replace(f"{XENC11}aes256-gcm", f"{XENC}tripledes-cbc"), weak),
        ("with no method", encrypted(good).replace(f'<xenc:EncryptionMethod Algorithm="{XENC11}aes256-gcm"/>', ""), weak),
        ("with a label", encrypted(good, parameters="<xenc:OAEPparams>bGFiZWw=</xenc:OAEPparams>"), weak),
        ("with a hash that is none", encrypted(good, parameters=f'<ds:DigestMethod xmlns:ds="{DS}" Algorithm="x"/>'), weak),
        ("with AES-CBC", encrypted(good, method=f"{XENC}aes256-cbc"), "unprotected_cbc"),
        ("changed under AES-GCM", encrypted(good, change=_flipped), broken),
        ("cut off", encrypted(good, change=lambda cipher: cipher[:10]), broken),
        ("empty", encrypted(good, change=lambda cipher: cipher[:0]), broken),
        ("as another AES", encrypted(good, method=f"{XENC11}aes128-gcm").replace("aes128-gcm", "aes256-gcm"), "no_key_opens"),
        ("without data", f'<saml:EncryptedAssertion xmlns:saml="{SAML}"/>', broken),
        ("without a key", encrypted(good).replace("xenc:EncryptedKey", "xenc:AgreementMethod"), broken),
        ("with many keys", _many_keys(good), broken),
        ("by reference", encrypted(good).replace("xenc:CipherValue", "xenc:CipherReference"), broken),
        ("in no base64", encrypted(good).replace("<xenc:CipherValue>", "<xenc:CipherValue>%"), broken),
        ("a name alone", encrypted(name_id()), broken),
        ("with nothing in it", encrypted(""), broken),
    ):
        yield f"encrypted {name}", response(text), {}, encryption, fault
    outside = signed_response(response(encrypted("x" * 40, method=f"{XENC}aes128-cbc", change=lambda cipher: cipher[:20])))
    yield "encrypted with AES-CBC under a signature, of a wrong length", outside, {}, encryption, broken
    padding = encrypted(good, method=f"{XENC}aes128-cbc", change=lambda cipher: cipher[:-16])
    yield "encrypted with AES-CBC under a signature, its padding cut off", signed_response(response(padding)), {}, encryption, broken
    yield "encrypted, and we have no key", response(encrypted(good)), {"decryption_keys": ()}, encryption, "no_key_opens"
    other = OAEP(sha1, hashes.SHA256(), None)
    yield "encrypted with another hash than it says", response(encrypted(good, padding=other)), {}, encryption, "no_key_opens"
    name = answer(assertion(name=encrypted(name_id(), made("stranger"), name="EncryptedID")))
    yield "a name that is encrypted for somebody else", name, {}, encryption, "no_key_opens"
    name = answer(assertion(name=encrypted("<a/>", name="EncryptedID")))
    yield "an encrypted name that is none", name, {}, encryption, broken
    entity = encrypted('<!DOCTYPE r [<!ENTITY e "x">]><r>&e;</r>')
    yield "an entity in what is encrypted", response(entity), {}, _C.WELL_FORMED, "malformed"
    comment = encrypted(good.replace("p-1", "p-1<!-- -->666"))
    yield "a comment in what is encrypted", response(comment), {}, _C.WELL_FORMED, "malformed"
    deep = encrypted("<a>" * 300 + "</a>" * 300)
    yield "too deep in what is encrypted", response(deep), {}, _C.WELL_FORMED, "malformed"


def _many_keys(plain: str) -> str:
    begin, key, end = encrypted(plain).partition("<xenc:EncryptedKey")
    one, close, rest = (key + end).partition("</xenc:EncryptedKey>")
    return begin + (one + close) * 4 + rest


def _about_content() -> Iterator[Attack]:  # noqa: PLR0915 - a list
    request, status = _C.IN_RESPONSE_TO, _C.STATUS
    for code in ("Requester", "Responder", "VersionMismatch", ""):
        text = response("", status=_code(f"{_STATUS}{code}"))
        yield f"status {code}", text, {}, status, "declined"
    yield "an answer that nobody asked for", answer(InResponseTo=None), {"request_id": None}, request, "unsolicited"
    yield "an answer to a request that is over", answer(), {"request_id": None}, request, "unknown_request"
    yield "an answer without InResponseTo", answer(InResponseTo=None), {}, request, "no_in_response_to"
    yield "an answer to another request", answer(InResponseTo=OTHER_REQUEST), {}, request, "other_request"
    yield "an empty InResponseTo", answer(InResponseTo=""), {}, request, "no_in_response_to"
    text = answer(assertion(confirmed=confirmation(InResponseTo=None)))
    yield "an assertion that nobody asked for, in an answer to us", text, {}, request, "no_in_response_to"
    text = answer(assertion(confirmed=confirmation(InResponseTo=OTHER_REQUEST)))
    yield "an assertion for another request, in an answer to us", text, {}, request, "other_request"
    yield "another destination", answer(Destination="https://evil.example/acs"), {}, _C.DESTINATION, "other_destination"
    yield "another connection's destination", answer(Destination=f"{CONNECTION}1/acs"), {}, _C.DESTINATION, "other_destination"
    yield "a destination with more", answer(Destination=f"{ACS}/"), {}, _C.DESTINATION, "other_destination"
    text = signed_response(response(Destination=None))
    yield "a signed answer without a destination", text, {}, _C.DESTINATION, "no_destination"
    issuer = _C.ISSUER
    yield "another issuer", answer(assertion(issuer="https://evil.example"), issuer="https://evil.example"), {}, issuer, "other_issuer"
    yield "another issuer of the response", answer(issuer="https://evil.example"), {}, issuer, "other_issuer"
    yield "another issuer of the assertion", answer(assertion(issuer="https://evil.example")), {}, issuer, "other_issuer"
    yield "an issuer in capitals", answer(issuer=DIRECTORY.upper()), {}, issuer, "other_issuer"
    yield "no issuer of a signed response", _signed_without_issuer(), {}, issuer, "no_issuer"
    yield "an assertion without an issuer", signed_response(response(assertion(issuer=None))), {}, issuer, "no_issuer"
    yield "an empty issuer", answer(assertion(issuer="")), {}, issuer, "no_issuer"
    recipient = _C.RECIPIENT
    yield "no confirmation", answer(assertion(confirmed=" ")), {}, recipient, "no_confirmation"
    keyed = confirmation("urn:oasis:names:tc:SAML:2.0:cm:holder-of-key")
    yield "another confirmation", answer(assertion(confirmed=keyed)), {}, recipient, "no_confirmation"
    twice = confirmation(Recipient="https://evil.example") + confirmation()
    yield "two confirmations", answer(assertion(confirmed=twice)), {}, recipient, "several_confirmations"
    yield "no recipient", answer(assertion(confirmed=confirmation(Recipient=None))), {}, recipient, "no_recipient"
    text = answer(assertion(confirmed=confirmation(Recipient="https://evil.example")))
    yield "another recipient", text, {}, recipient, "other_recipient"
    text = answer(assertion(confirmed=confirmation(Recipient=f"{CONNECTION}1/acs")))
    yield "another connection's recipient", text, {}, recipient, "other_recipient"
    audience = _C.AUDIENCE
    yield "another audience", answer(assertion(conditioned=conditions("https://crm.example"))), {}, audience, "other_audience"
    yield "another connection's audience", answer(assertion(conditioned=conditions(f"{CONNECTION}1"))), {}, audience, "other_audience"
    yield "a longer audience", answer(assertion(conditioned=conditions(f"{CONNECTION}/"))), {}, audience, "other_audience"
    elsewhere = "<saml:AudienceRestriction><saml:Audience>https://crm.example</saml:Audience></saml:AudienceRestriction>"
    yield (
        "two restrictions, and one for somebody else",
        answer(assertion(conditioned=conditions(inside=elsewhere))),
        {},
        audience,
        "other_audience",
    )
    yield "no audience", answer(assertion(conditioned="<saml:Conditions/>")), {}, audience, "no_audience"
    yield "no conditions", answer(assertion(conditioned=" ")), {}, audience, "no_audience"
    text = answer(assertion(conditioned=conditions(inside="<saml:Condition/>")))
    yield "a condition that nobody knows", text, {}, audience, "unknown_condition"
    times = _C.TIMES
    for name, text, fault in (
        ("too late", assertion(conditioned=conditions(NotOnOrAfter=at(seconds=-60))), "too_late"),
        ("too early", assertion(conditioned=conditions(NotBefore=at(seconds=61))), "too_early"),
        ("confirmed too late", assertion(confirmed=confirmation(NotOnOrAfter=at(seconds=-60))), "too_late"),
        ("confirmed too early", assertion(confirmed=confirmation(NotBefore=at(seconds=61))), "too_early"),
        ("confirmed for ever", assertion(confirmed=confirmation(NotOnOrAfter=None)), "no_time"),
        ("made in the future", assertion(IssueInstant=at(seconds=61)), "too_early"),
        ("made at no time", assertion(IssueInstant="yesterday"), "no_moment"),
        ("a session that has ended", assertion(stated=statement(SessionNotOnOrAfter=at(seconds=-60))), "session_ended"),
        ("signed in in the future", assertion(stated=statement(AuthnInstant=at(seconds=61))), "too_early"),
        ("an end that is no time", assertion(conditioned=conditions(NotOnOrAfter="9999")), "no_moment"),
        ("an end in another zone", assertion(confirmed=confirmation(NotOnOrAfter="2026-06-01T12:00:00+09:00")), "no_moment"),
        ("an end in other digits", assertion(confirmed=confirmation(NotOnOrAfter=at(minutes=5).replace("2", "\u0662"))), "no_moment"),
    ):
        yield name, answer(text), {}, times, fault
    authentication = _C.AUTHENTICATION
    yield "attributes alone", answer(assertion(stated=" ")), {}, authentication, "no_authentication"
    yield "no moment of a sign-in", answer(assertion(stated=statement(AuthnInstant=None))), {}, authentication, "no_authentication"
    since = {"authenticated_since": expected().now}
    text = answer(assertion(stated=statement(AuthnInstant=at(seconds=-61))))
    yield "an old sign-in for a new one", text, since, authentication, "too_long_ago"
    subject = _C.SUBJECT
    transient = "urn:oasis:names:tc:SAML:2.0:nameid-format:transient"
    yield "a passing name", answer(assertion(name=name_id(format_=transient))), {}, subject, "passing_subject"
    yield "no name", answer(assertion(name=" ")), {}, subject, "no_subject"
    yield "an empty name", answer(assertion(name=name_id(" "))), {}, subject, "no_subject"
    text = answer(assertion(name=name_id(NameQualifier="https://evil.example")))
    yield "another directory's name", text, {}, subject, "foreign_subject"
    yield (
        "another application's name",
        answer(assertion(name=name_id(SPNameQualifier="https://crm.example"))),
        {},
        subject,
        "foreign_subject",
    )
    yield "an endless name", answer(assertion(name=name_id("p" * 256))), {}, subject, "unusable_subject"
    yield "a name with a space that XML does not know", answer(assertion(name=name_id("p-1\u00a0"))), {}, subject, "unusable_subject"
    yield "a name with a hidden character", answer(assertion(name=name_id("p\u202e1"))), {}, subject, "unusable_subject"
    by_groups = {"mapping": expected().mapping.__class__(subject="groups")}
    yield "an attribute with several values for the name", answer(), by_groups, subject, "several_subjects"
    address = _C.ADDRESS
    yield "no address", answer(assertion(attributes="")), {}, address, "no_address"
    for told in ("ada", "@example.com", "ada@", "a b@example.com", "ada\u202e@example.com", "a" * 321 + "@example.com"):
        text = answer(assertion().replace("ada@example.com", told))
        yield f"an address that is none: {told[:12]}", text, {}, address, "unusable_address"


def _signed_without_issuer() -> str:
    root = document(response(signed_assertion(), issuer=None))
    sign(root, directory())
    return written(root)


def attacks() -> Iterator[Attack]:
    for group in (wrapping.wrapped, wrapping.within_encryption, wrapping.of_both):
        for name, text in group():
            check, fault = _BY_WRAPPING.get(name, (_C.WELL_FORMED, "malformed"))
            yield f"wrapped: {name}", text, {}, check, fault
    for about in (_about_form, _about_signatures, _about_algorithms, _about_encryption, _about_content):
        yield from about()


_IN_PLACE: Final = (_C.ENCRYPTION, "broken_encryption")
_BY_FORM: Final = (_C.SIGNATURE, "signature_form")
_BY_VALUE: Final = (_C.SIGNATURE, "broken_signature")
# All others have an assertion or an element where SAML has none, which is refused before anything is verified.
_BY_WRAPPING: Final = {
    "encrypted: the attacker's around the signed": _BY_FORM,
    "encrypted: the signature moved": _BY_FORM,
    "encrypted: the signed in ds:Object": _BY_FORM,
    "encrypted: two assertions": _IN_PLACE,
    "encrypted: two assertions, the signed first": _IN_PLACE,
    "encrypted: twice": _IN_PLACE,
    "encrypted: a whole answer": _IN_PLACE,
    "encrypted: text around the assertion": _IN_PLACE,
    "encrypted: a signature beside the ciphertext": _BY_FORM,
    "changed under both signatures": _BY_VALUE,
    "the response signed over a changed assertion": _BY_VALUE,
    "the signature of the response twice": _BY_FORM,
    "the two signatures swapped": _BY_FORM,
}

"""An application that signs people in by SAML: a request in the address, a signed answer in a form. It knows the address of Postern's
metadata, and nothing else of Postern.
"""

import secrets
import zlib
from base64 import b64decode, b64encode
from datetime import UTC, datetime, timedelta
from html import escape
from typing import Any, Final
from urllib.parse import parse_qs, urlencode
from urllib.request import urlopen

import xmlsec
from lxml import etree

from entrypoints.demo.application import DemoPages, DemoServer, SignInFailed

_NAMES: Final = {
    "saml": "urn:oasis:names:tc:SAML:2.0:assertion",
    "samlp": "urn:oasis:names:tc:SAML:2.0:protocol",
    "md": "urn:oasis:names:tc:SAML:2.0:metadata",
    "ds": "http://www.w3.org/2000/09/xmldsig#",
}
_REDIRECT: Final = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect"
_POST: Final = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST"
_PATIENCE: Final = 10.0
_MOST: Final = 1 << 20
_MOST_ASKED: Final = 1000
_LEEWAY: Final = timedelta(seconds=10)
_FORM: Final = "application/x-www-form-urlencoded"


class DemoWiki(DemoServer):
    title = "Demo Wiki"

    def __init__(self, port: int) -> None:
        super().__init__(port, _Arrivals)
        self.metadata = ""
        self._asked: dict[str, None] = {}

    @property
    def entity(self) -> str:
        return f"{self.home}/saml"

    @property
    def acs(self) -> str:
        return f"{self.home}/acs"

    @property
    def description(self) -> str:
        """Its own metadata, which Postern reads."""
        return (
            f'<md:EntityDescriptor xmlns:md="{_NAMES["md"]}" entityID="{self.entity}">'
            f'<md:SPSSODescriptor protocolSupportEnumeration="{_NAMES["samlp"]}">'
            f'<md:AssertionConsumerService Binding="{_POST}" Location="{self.acs}" index="0" isDefault="true"/>'
            "</md:SPSSODescriptor></md:EntityDescriptor>"
        )

    def begin(self) -> str:
        """The address that a sign-in leads to."""
        while len(self._asked) >= _MOST_ASKED:
            self._asked.pop(next(iter(self._asked)))
        number = f"_{secrets.token_hex(16)}"
        self._asked[number] = None
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        (place,) = self._described(f"//md:SingleSignOnService[@Binding='{_REDIRECT}']/@Location")[:1]
        request = (
            f'<samlp:AuthnRequest xmlns:samlp="{_NAMES["samlp"]}" xmlns:saml="{_NAMES["saml"]}" ID="{number}" Version="2.0"'
            f' IssueInstant="{now}" Destination="{escape(place)}" AssertionConsumerServiceURL="{self.acs}" ProtocolBinding="{_POST}">'
            f"<saml:Issuer>{self.entity}</saml:Issuer></samlp:AuthnRequest>"
        )
        packed = zlib.compress(request.encode())[2:-4]
        return f"{place}?{urlencode({'SAMLRequest': b64encode(packed).decode()})}"

    def arrive(self, sent: str) -> dict[str, str]:
        """What the assertion says of the person. Raises `SignInFailed`."""
        try:
            response = etree.fromstring(b64decode(sent), etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False))
        except (ValueError, etree.XMLSyntaxError):
            raise SignInFailed("This is no answer by SAML.") from None
        found = response.xpath("/samlp:Response/saml:Assertion", namespaces=_NAMES)
        if len(found) != 1:
            raise SignInFailed("Postern has let nobody in.")
        assertion = self._signed(response, found[0])
        if self._asked.pop(str(_one(assertion, ".//saml:SubjectConfirmationData/@InResponseTo")), "") is not None:
            raise SignInFailed("This answer belongs to no sign-in of this application: begin again.")
        until = datetime.fromisoformat(str(_one(assertion, "./saml:Conditions/@NotOnOrAfter")))
        audience = _one(assertion, "./saml:Conditions/saml:AudienceRestriction/saml:Audience/text()")
        recipient = _one(assertion, ".//saml:SubjectConfirmationData/@Recipient")
        if (audience, recipient) != (self.entity, self.acs) or until + _LEEWAY <= datetime.now(UTC):
            raise SignInFailed("This answer is for another application, or too old.")
        told = {"NameID": str(_one(assertion, "./saml:Subject/saml:NameID/text()"))}
        for one in assertion.xpath("./saml:AttributeStatement/saml:Attribute", namespaces=_NAMES):
            told[one.get("FriendlyName") or one.get("Name")] = ", ".join(one.xpath("./saml:AttributeValue/text()", namespaces=_NAMES))
        return told

    def _signed(self, response: Any, assertion: Any) -> Any:
        """The assertion, as it was signed itself, or within the signed answer. Nothing else of the document counts."""
        for signed in (assertion, response):
            signature = signed.find("./ds:Signature", _NAMES)
            if signature is None:
                continue
            (reference,) = signature.xpath("./ds:SignedInfo/ds:Reference/@URI", namespaces=_NAMES)
            if reference != f"#{signed.get('ID')}" or len(response.xpath(f"//*[@ID='{signed.get('ID')}']")) != 1:
                break
            for certificate in self._described("//md:IDPSSODescriptor/md:KeyDescriptor//ds:X509Certificate/text()"):
                context = xmlsec.SignatureContext()
                context.register_id(signed, "ID")
                context.key = xmlsec.Key.from_memory(b64decode("".join(certificate.split())), xmlsec.constants.KeyDataFormatCertDer)
                try:
                    context.verify(signature)
                except xmlsec.Error:
                    continue
                return assertion
        raise SignInFailed("The answer is not signed by Postern.")

    def _described(self, path: str) -> list[str]:
        with urlopen(self.metadata, timeout=_PATIENCE) as answer:  # noqa: S310 - Postern's own address
            found: list[str] = etree.fromstring(answer.read(_MOST)).xpath(path, namespaces=_NAMES)
        return found


class _Arrivals(DemoPages):
    server: DemoWiki

    def do_GET(self) -> None:  # noqa: N802 - the library's name
        if self.path == "/":
            self.show(f"<p>An application that signs people in by SAML.</p>{_BUTTON}")
        elif self.path == "/sign-in":
            try:
                self.redirect(self.server.begin())
            except OSError as error:
                self.show(f"<p>Postern did not answer as it should: {escape(str(error))}</p>{_BUTTON}", 502)
        else:
            self.show("<p>There is nothing here. <a href='/'>Back</a></p>", 404)

    def do_POST(self) -> None:  # noqa: N802 - the library's name
        length = int(self.headers.get("Content-Length", "0"))
        if self.path != "/acs" or length > _MOST or not self.headers.get("Content-Type", "").startswith(_FORM):
            self.show("<p>There is nothing here. <a href='/'>Back</a></p>", 404)
            return
        sent = parse_qs(self.rfile.read(length).decode("ascii", "replace"))
        try:
            told = self.server.arrive("".join(sent.get("SAMLResponse", [""])[:1]))
        except SignInFailed as failure:
            self.show(f"<p>{escape(str(failure))}</p>{_BUTTON}", 400)
            return
        rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in told.items())
        self.show(f"<p>Signed in as <strong>{escape(told['NameID'])}</strong>.</p><h2>What Postern told us</h2><dl>{rows}</dl>")


_BUTTON: Final = '<p><a class="button" href="/sign-in">Sign in with Postern</a></p>'


def _one(element: Any, path: str) -> Any:
    found = element.xpath(path, namespaces=_NAMES)
    if len(found) != 1:
        raise SignInFailed("The assertion lacks what an application needs.")
    return found[0]

"""A service as the identity provider of a SAML service provider, and the messages that this service provider sends and gets."""

import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Final
from urllib.parse import parse_qs, quote, urlencode, urlsplit
from uuid import uuid4

import signxml
import xmlsec
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from lxml import etree

from ops.browser.page_reader import PageReader
from ops.stand_ins.saml import DS, SAML, SAMLP, Pair
from tests.http.browsing import Tab, Tabs
from tests.http.cast import Cast
from tests.http.client import Received
from tests.http.people import BASE_URL, Person
from tests.http.signing_in import PASSWORD, unlimited
from tests.http.tenants import UsedService

SP: Final = "https://crm.example.com/saml"
ACS: Final = "https://crm.example.com/saml/acs"
SLO: Final = "https://crm.example.com/saml/slo"
RSA_SHA256: Final = "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256"
SESSION_COOKIE: Final = "__Host-postern_session"
MD: Final = "urn:oasis:names:tc:SAML:2.0:metadata"
NAMESPACES: Final = {"p": SAMLP, "a": SAML, "md": MD, "ds": DS}


def verifier() -> Any:
    """Verifies signatures with another library."""
    return signxml.XMLVerifier()  # type: ignore[attr-defined]  # it has no __all__


_OF_SERVICES: Final[list[RSAPrivateKey]] = []


def kept_pairs() -> Callable[[int, int], RSAPrivateKey]:
    """Gives a test's services their pairs. No two services have the same pair, but the first services of all tests share one, and so on."""
    numbers = count()

    def kept(exponent: int, bits: int) -> RSAPrivateKey:
        number = next(numbers)
        if number == len(_OF_SERVICES):
            _OF_SERVICES.append(generate_private_key(exponent, bits))
        return _OF_SERVICES[number]

    return kept


def now(**shift: float) -> str:
    return (datetime.now(UTC) + timedelta(**shift)).strftime("%Y-%m-%dT%H:%M:%SZ")


def authn_request(**changes: Any) -> str:
    """XML of an authentication request. A change to None leaves an attribute out. `inside` is put behind the issuer."""
    inside = changes.pop("inside", "")
    issuer = changes.pop("issuer", SP)
    attributes: dict[str, str | None] = {
        "ID": f"_{uuid4().hex}",
        "Version": "2.0",
        "IssueInstant": now(),
        "Destination": f"{BASE_URL}/saml/acme/app/sso",
        "AssertionConsumerServiceURL": ACS,
        **changes,
    }
    said = " ".join(f'{name}="{value}"' for name, value in attributes.items() if value is not None)
    named = "" if issuer is None else f"<saml:Issuer>{issuer}</saml:Issuer>"
    return f'<samlp:AuthnRequest xmlns:samlp="{SAMLP}" xmlns:saml="{SAML}" {said}>{named}{inside}</samlp:AuthnRequest>'


def logout_request(name_id: str, index: str | None = None, **changes: str | None) -> str:
    attributes: dict[str, str | None] = {
        "ID": f"_{uuid4().hex}",
        "Version": "2.0",
        "IssueInstant": now(),
        "Destination": f"{BASE_URL}/saml/acme/app/slo",
        **changes,
    }
    said = " ".join(f'{name}="{value}"' for name, value in attributes.items() if value is not None)
    session = "" if index is None else f"<samlp:SessionIndex>{index}</samlp:SessionIndex>"
    return (
        f'<samlp:LogoutRequest xmlns:samlp="{SAMLP}" xmlns:saml="{SAML}" {said}><saml:Issuer>{SP}</saml:Issuer>'
        f"<saml:NameID>{name_id}</saml:NameID>{session}</samlp:LogoutRequest>"
    )


def deflated(document: str | bytes) -> str:
    packing = zlib.compressobj(9, zlib.DEFLATED, -15)
    raw = document.encode() if isinstance(document, str) else document
    return b64encode(packing.compress(raw) + packing.flush()).decode()


def in_query(document: str, state: str | None = None, *, signer: Pair | None = None, name: str = "SAMLRequest") -> str:
    """The query of the redirect binding."""
    parts = [(name, deflated(document))]
    if state is not None:
        parts.append(("RelayState", state))
    if signer is None:
        return urlencode(parts)
    parts.append(("SigAlg", RSA_SHA256))
    query = "&".join(f"{one}={quote(value, safe='')}" for one, value in parts)
    key: Any = load_pem_private_key(signer.key.encode(), None)
    signature = b64encode(key.sign(query.encode(), padding.PKCS1v15(), hashes.SHA256())).decode()
    return f"{query}&Signature={quote(signature, safe='')}"


def signed(document: str, signer: Pair) -> str:
    """The XML with an enveloped signature behind the issuer, made by xmlsec. Other tests sign with other libraries."""
    root = etree.fromstring(document.encode())
    sign(root, signer)
    return str(etree.tostring(root), "utf-8")


def sign(root: Any, signer: Pair) -> None:
    signature = xmlsec.template.create(root, xmlsec.constants.TransformExclC14N, xmlsec.constants.TransformRsaSha256, ns="ds")
    root[0].addnext(signature)
    reference = xmlsec.template.add_reference(signature, xmlsec.constants.TransformSha256, uri=f"#{root.get('ID')}")
    xmlsec.template.add_transform(reference, xmlsec.constants.TransformEnveloped)
    xmlsec.template.add_transform(reference, xmlsec.constants.TransformExclC14N)
    information = etree.SubElement(etree.SubElement(signature, f"{{{DS}}}KeyInfo"), f"{{{DS}}}X509Data")
    etree.SubElement(information, f"{{{DS}}}X509Certificate").text = signer.bare
    context = xmlsec.SignatureContext()
    context.key = xmlsec.Key.from_memory(signer.key, xmlsec.constants.KeyDataFormatPem)
    context.register_id(root, "ID")
    context.sign(signature)


def in_form(document: str | bytes, state: str | None = None, name: str = "SAMLRequest") -> dict[str, str]:
    raw = document.encode() if isinstance(document, str) else document
    fields = {name: b64encode(raw).decode()}
    return fields if state is None else {**fields, "RelayState": state}


def metadata(*, signing: tuple[Pair, ...] = (), encryption: Pair | None = None, more: str = "", slo: str = "", **changes: str) -> bytes:
    keys = "".join(_key("signing", one) for one in signing) + ("" if encryption is None else _key("encryption", encryption))
    attributes = " ".join(f'{name}="{value}"' for name, value in changes.items() if name != "entity")
    return (
        f'<md:EntityDescriptor xmlns:md="{MD}" xmlns:ds="{DS}" entityID="{changes.get("entity", SP)}">'
        f'<md:SPSSODescriptor protocolSupportEnumeration="{SAMLP}" {attributes}>{keys}'
        f"{slo or _logout('POST', SLO)}"
        "<md:NameIDFormat>urn:oasis:names:tc:SAML:2.0:nameid-format:persistent</md:NameIDFormat>"
        f'<md:AssertionConsumerService index="0" isDefault="true" Location="{ACS}" '
        f'Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST"/>'
        f'<md:AssertionConsumerService index="7" Location="{ACS}/7" Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST"/>{more}'
        "</md:SPSSODescriptor></md:EntityDescriptor>"
    ).encode()


def _logout(binding: str, url: str) -> str:
    return f'<md:SingleLogoutService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-{binding}" Location="{url}"/>'


def redirect_logout(url: str = SLO) -> str:
    return _logout("Redirect", url)


def _key(use: str, one: Pair) -> str:
    data = f"<ds:X509Data><ds:X509Certificate>{one.bare}</ds:X509Certificate></ds:X509Data>"
    return f'<md:KeyDescriptor use="{use}"><ds:KeyInfo>{data}</ds:KeyInfo></md:KeyDescriptor>'


@dataclass(frozen=True)
class Response:
    """A response that the service provider gets."""

    xml: bytes
    fields: Mapping[str, str]
    root: Any = field(repr=False)

    @property
    def status(self) -> str:
        codes = self.root.findall(".//p:StatusCode", NAMESPACES)
        return str(codes[-1].get("Value").rpartition(":")[2])

    def text(self, path: str) -> str:
        found = self.root.find(path, NAMESPACES)
        assert found is not None, (path, self.xml)
        return found.text or ""

    def attribute(self, path: str, name: str) -> str | None:
        found = self.root.find(path, NAMESPACES)
        assert found is not None, (path, self.xml)
        value: str | None = found.get(name)
        return value

    @property
    def attributes(self) -> dict[str, list[str]]:
        return {
            one.get("Name"): [value.text or "" for value in one.findall("a:AttributeValue", NAMESPACES)]
            for one in self.root.findall(".//a:Attribute", NAMESPACES)
        }


def sent(answer: Received, action: str = ACS, name: str = "SAMLResponse") -> Response:
    """The response in a page's form."""
    assert answer.status == 200, (answer.status, answer.header("location"), answer.body)
    (form,) = PageReader(answer.body).forms
    assert form.action == action
    assert "form-action" not in (answer.header("content-security-policy") or "")
    assert answer.body.count(b"<button") == 1
    document = b64decode(form.fields[name])
    return Response(document, form.fields, etree.fromstring(document))


def redirected(answer: Received, url: str, name: str) -> Response:
    """The response in an address."""
    assert answer.status == 302, (answer.status, answer.body)
    return _in_address(answer.header("location") or "", url, name)


def led(answer: Received, url: str, name: str) -> Response:
    """The response in the address to which a page of ours leads. After a form, browsers do not allow a redirect there."""
    assert answer.status == 200, (answer.status, answer.header("location"), answer.body)
    page = PageReader(answer.body)
    assert page.refresh in page.links, page.text
    return _in_address(page.refresh or "", url, name)


def carried(answer: Received, url: str = SLO, name: str = "SAMLResponse") -> Response:
    """A signed sign-out message, in either binding."""
    if answer.status == 302:
        got = redirected(answer, url, name)
    elif PageReader(answer.body).forms:
        got = sent(answer, url, name)
        assert got.root.find("{*}Signature") is not None
        return got
    else:
        got = led(answer, url, name)
    assert got.fields["Signature"]
    assert got.fields["SigAlg"].endswith("rsa-sha256")
    return got


def _in_address(location: str, url: str, name: str) -> Response:
    assert location.startswith(f"{url}?"), location
    fields = {one: values[0] for one, values in parse_qs(urlsplit(location).query, strict_parsing=True).items()}
    document = zlib.decompress(b64decode(fields[name]), -15)
    return Response(document, fields, etree.fromstring(document))


class Providing(Cast):
    """Acme with a service that has SAML, and its owner."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.acme = self.tenants.add("acme")
        self.app = self.tenants.service(self.acme, "app")
        self.owner = self.resident(self.acme, "owner")
        self.unlimited = unlimited(self.postern)

    async def call(
        self, method: str, suffix: str = "", body: Any = None, *, who: Person | None = None, service: str = "app", **more: Any
    ) -> Received:
        path = f"/api/organizations/acme/services/{service}/saml{suffix}"
        token = await self.people.token(who or self.owner)
        return await self.unlimited.request(method, path, body=body, token=token, **more)

    async def configure(self, *, service: str = "app", **changes: Any) -> None:
        body = {"enabled": True, "entity_id": SP, "acs_url": ACS, **changes}
        (await self.call("POST", body=body, service=service)).ok()

    async def certificate(self, query: str = "", *, service: str = "app") -> dict[str, Any]:
        return (await self.call("POST", f"/certificate{query}", service=service)).ok()

    async def upload(self, document: bytes, *, service: str = "app") -> Received:
        return await self.call("POST", "/metadata", document, service=service, headers=[("content-type", "application/samlmetadata+xml")])

    async def ready(self, **changes: Any) -> str:
        """Configures SAML with a certificate, and returns the certificate."""
        await self.configure(**changes)
        return str((await self.certificate())["public_key"])

    def browser(self) -> Tabs:
        return Tabs(self.unlimited)

    def allow(self, person: Person, entity_id: str = SP, service: UsedService | None = None) -> Person:
        """The person has consented that the service provider learns who they are: for all services, or for this one."""
        self.people.change(
            "insert into consents (id, user_id, service_id, granted_at, saml_entity_id)"
            " select gen_random_uuid(), %s, id, now(), %s from all_services where id = coalesce(%s, id)"
            " on conflict (user_id, service_id) do update set saml_entity_id = excluded.saml_entity_id",
            person.user,
            entity_id,
            None if service is None else service.id,
        )
        return person

    async def with_password(self, email: str | None = None) -> Person:
        """A person with a password who has consented."""
        person = await self.people.with_password(PASSWORD, *(() if email is None else (email,)))
        return self.allow(person)

    def signed_in(self, person: Person, *, age: float = 60, amr: str = "{pwd}", allowed: bool = True) -> Tabs:
        """A browser in which the person signed in `age` seconds ago. `allowed` says whether the person has consented already."""
        if allowed:
            self.allow(person)
        tabs = self.browser()
        token = self.postern.foundation.secrets.token()
        self.people.change(
            "update sessions set authenticated_by = %s, proved_at = now() - %s * interval '1 second' where id = %s",
            amr,
            age,
            person.session,
        )
        self.people.change("insert into browser_sessions (digest, session_id) values (%s, %s)", token.digest(), person.session)
        tabs.cookies[SESSION_COOKIE] = token.reveal()
        return tabs

    async def exchanges(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.call("GET", "/exchanges")).ok()["exchanges"]
        return found

    async def opened(self, tab: Tab, target: str) -> Tab:
        """Opens the address as a browser without scripts does, and follows redirects."""
        answer = await tab.tabs.request("GET", target)
        place = target
        for _ in range(5):
            location = answer.header("location")
            if location is None or not location.startswith("/"):
                break
            place = location
            answer = await tab.tabs.request("GET", location)
        tab.place, tab.answer = place, answer
        return tab


def sso(service: UsedService | str = "app") -> str:
    return f"/saml/acme/{service}/sso"


def slo(service: str = "app") -> str:
    return f"/saml/acme/{service}/slo"


def asking(document: str | None = None, state: str | None = None, **more: Any) -> str:
    return f"{sso()}?{in_query(document or authn_request(), state, **more)}"

"""A directory by SAML that does as a test tells it: it reads our request from the address that we send the browser to, and makes the form
that it would post back.
"""

import base64
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

from lxml import etree

from ops.stand_ins import saml
from ops.stand_ins.saml import DS, MAIL, PERSISTENT, SAML, SAMLP, Pair, attribute, pair

SSO: Final = "https://login.acme.example/saml/sso"
SLO: Final = "https://login.acme.example/saml/slo"
ENTITY: Final = "https://login.acme.example/saml"
PASSWORD_CONTEXT: Final = "urn:oasis:names:tc:SAML:2.0:ac:classes:Password"


@dataclass
class Asked:
    """Our request, as the directory reads it."""

    id: str
    issuer: str
    acs: str
    relay_state: str
    document: Any

    @property
    def force(self) -> bool:
        return bool(self.document.get("ForceAuthn") == "true")

    @property
    def contexts(self) -> list[str]:
        return [one.text for one in self.document.iter(f"{{{SAML}}}AuthnContextClassRef")]


@dataclass
class FakeDirectory:
    """`subject` and `email` are those of the person who sits there. `signer` signs the answers."""

    subject: str = "p-1"
    email: str | None = "ada@example.org"
    signer: Pair = field(default_factory=lambda: pair("directory of acme"))
    issuer: str = ENTITY
    more: Mapping[str, str] = field(default_factory=dict)
    context: str = PASSWORD_CONTEXT
    signed_in_ago: timedelta = timedelta(seconds=5)
    session_index: str = "_s1"
    ends_in: timedelta = timedelta(hours=8)
    """The rest of the session there."""
    restriction: str = ""
    """More conditions of the assertion."""

    @property
    def certificate(self) -> str:
        return self.signer.certificate

    def metadata(self) -> str:
        key = f'<md:KeyDescriptor use="signing"><ds:KeyInfo xmlns:ds="{DS}"><ds:X509Data><ds:X509Certificate>{self.signer.bare}'
        return (
            f'<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" entityID="{self.issuer}">'
            f'<md:IDPSSODescriptor protocolSupportEnumeration="{SAMLP}">{key}</ds:X509Certificate></ds:X509Data></ds:KeyInfo>'
            f'</md:KeyDescriptor><md:SingleLogoutService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect" Location="{SLO}"/>'
            f'<md:SingleSignOnService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect" Location="{SSO}"/>'
            f"</md:IDPSSODescriptor></md:EntityDescriptor>"
        )

    def asked(self, location: str) -> Asked:
        query = {name: values[0] for name, values in parse_qs(urlsplit(location).query).items()}
        document = etree.fromstring(zlib.decompress(base64.b64decode(query["SAMLRequest"]), -15))
        issuer = document.find(f"{{{SAML}}}Issuer")
        return Asked(
            id=document.get("ID"),
            issuer=issuer.text,
            acs=document.get("AssertionConsumerServiceURL"),
            relay_state=query["RelayState"],
            document=document,
        )

    def answer(self, location: str, **changes: Any) -> dict[str, str]:
        """The fields of the form that goes to our address. `changes` are those of `written`."""
        asked = self.asked(location)
        return {"SAMLResponse": saml.packed(self.written(asked, **changes)), "RelayState": asked.relay_state}

    def written(
        self,
        asked: Asked,
        *,
        request: str | None = None,
        audience: str | None = None,
        recipient: str | None = None,
        assertion_id: str | None = None,
        signer: Pair | None = None,
        sign: bool = True,
    ) -> str:
        now = datetime.now(UTC)

        def at(**shift: float) -> str:
            return (now + timedelta(**shift)).strftime("%Y-%m-%dT%H:%M:%SZ")

        request, recipient = asked.id if request is None else request, recipient or asked.acs
        attributes = "".join(attribute(name, value) for name, value in self.more.items())
        if self.email is not None:
            attributes += attribute(MAIL, self.email)
        text = saml.assertion(
            name=saml.name_id(self.subject, PERSISTENT),
            confirmed=saml.confirmation(InResponseTo=request, NotOnOrAfter=at(minutes=5), Recipient=recipient),
            conditioned=saml.conditions(
                audience or asked.issuer, inside=self.restriction, NotBefore=at(minutes=-1), NotOnOrAfter=at(minutes=5)
            ),
            stated=saml.statement(
                AuthnInstant=(now - self.signed_in_ago).strftime("%Y-%m-%dT%H:%M:%SZ"),
                SessionIndex=self.session_index,
                SessionNotOnOrAfter=(now + self.ends_in).strftime("%Y-%m-%dT%H:%M:%SZ"),
            ).replace(PASSWORD_CONTEXT, self.context),
            attributes=attributes,
            issuer=self.issuer,
            ID=assertion_id or f"_a{uuid4().hex}",
            IssueInstant=at(),
        )
        if sign:
            text = saml.signed_assertion(text, signer or self.signer)
        return saml.response(
            text, issuer=self.issuer, ID=f"_r{uuid4().hex}", IssueInstant=at(), Destination=recipient, InResponseTo=request
        )

"""The metadata of directories, and their certificates by themselves."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from lxml import etree

from adapters.saml.metadata import pasted_certificate, read_directory
from core.domain.errors import BadRequest
from core.domain.identity.upstream.saml.assertions import DirectoryEndpoint
from core.domain.saml import SamlBinding, fingerprint
from ops.stand_ins.saml import DIRECTORY, DS, SAMLP, Pair, directory, document, made, pair, sign, template, written
from tests.http.federation.providing import MD, metadata

_SSO: Final = f"{DIRECTORY}/sso"
_POST: Final = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST"
_REDIRECT: Final = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect"
_SOAP: Final = "urn:oasis:names:tc:SAML:2.0:bindings:SOAP"


def _key(one: Pair, use: str = ' use="signing"') -> str:
    bare = "\n".join(one.bare[place : place + 64] for place in range(0, len(one.bare), 64))
    data = f"<ds:X509Data><ds:X509Certificate>\n{bare}\n</ds:X509Certificate></ds:X509Data>"
    return f'<md:KeyDescriptor{use}><ds:KeyInfo xmlns:ds="{DS}">{data}</ds:KeyInfo></md:KeyDescriptor>'


def _endpoint(name: str, binding: str, url: str, more: str = "") -> str:
    return f'<md:{name} Binding="{binding}" Location="{url}"{more}/>'


_SIGN_IN: Final = _endpoint("SingleSignOnService", _REDIRECT, _SSO) + _endpoint("SingleSignOnService", _POST, f"{_SSO}/post")


def _provider(
    keys: str | None = None, *, sign_in: str = _SIGN_IN, logout: str = "", protocols: str = SAMLP, attributes: str = "", formats: str = ""
) -> str:
    inside = (_key(directory()) if keys is None else keys) + logout + formats + sign_in
    return f'<md:IDPSSODescriptor protocolSupportEnumeration="{protocols}"{attributes}>{inside}</md:IDPSSODescriptor>'


def _entity(provider: str | None = None, entity: str = DIRECTORY, attributes: str = "") -> str:
    inside = _provider() if provider is None else provider
    return f'<md:EntityDescriptor xmlns:md="{MD}" entityID="{entity}"{attributes}>{inside}</md:EntityDescriptor>'


def _entities(*inside: str, attributes: str = "") -> str:
    return f'<md:EntitiesDescriptor xmlns:md="{MD}"{attributes}>{"".join(inside)}</md:EntitiesDescriptor>'


def test_what_a_connection_needs_is_read() -> None:
    format_ = "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent"
    provider = _provider(
        _key(directory()) + _key(directory()) + _key(made("next", "p256"), "") + _key(pair("ours"), ' use="encryption"'),
        logout=_endpoint("SingleLogoutService", _SOAP, f"{DIRECTORY}/soap")
        + _endpoint("SingleLogoutService", _REDIRECT, f"{DIRECTORY}/slo", f' ResponseLocation="{DIRECTORY}/done"'),
        sign_in=_endpoint("SingleSignOnService", _SOAP, f"{DIRECTORY}/soap")
        + _SIGN_IN
        + _endpoint("SingleSignOnService", _REDIRECT, "https://b"),
        attributes=' WantAuthnRequestsSigned=" 1 " validUntil="2031-02-28T12:00:00Z"',
        formats=f"<md:NameIDFormat>\n {format_} </md:NameIDFormat>",
    )
    read = read_directory(_entity(provider, attributes=' cacheDuration="P1DT2H" validUntil="2032-01-01T00:00:00Z"').encode())
    assert read.entity_id == DIRECTORY
    assert read.sign_in == (
        DirectoryEndpoint(SamlBinding.REDIRECT, _SSO),
        DirectoryEndpoint(SamlBinding.POST, f"{_SSO}/post"),
    )
    assert read.address(SamlBinding.POST) == f"{_SSO}/post"
    assert read.sign_out == (DirectoryEndpoint(SamlBinding.REDIRECT, f"{DIRECTORY}/slo", f"{DIRECTORY}/done"),)
    known = [fingerprint(directory().certificate), fingerprint(made("next", "p256").certificate)]
    assert [one.fingerprint for one in read.signing_certificates] == known
    assert [one.fingerprint for one in read.encryption_certificates] == [known[1], fingerprint(pair("ours").certificate)]
    assert read.signing_certificates[0].subject == "CN=directory"
    assert (read.name_id_formats, read.wants_requests_signed) == ((format_,), True)
    assert read.valid_until == datetime(2031, 2, 28, 12, tzinfo=UTC)
    assert read.cache_for == timedelta(days=1, hours=2)
    assert (read.is_signed, read.signed_by) == (False, None)


def test_certificates_that_have_ended_are_told_and_short_ones_left_out() -> None:
    ended, short = made("ended", ends=-1), made("short", "rsa1024")
    read = read_directory(_entity(_provider(_key(short) + _key(ended) + _key(short, ' use="encryption"'))).encode())
    assert [one.fingerprint for one in read.signing_certificates] == [fingerprint(ended.certificate)]
    assert read.signing_certificates[0].valid_until < datetime(2026, 6, 1, 12, tzinfo=UTC)
    assert read.encryption_certificates == ()


def test_one_directory_among_applications_is_found() -> None:
    application = metadata().decode()
    for text in (_entities(application, _entity()), _entities(_entities(application, _entity()), application)):
        assert read_directory(text.encode()).entity_id == DIRECTORY


def _useless() -> list[tuple[str, str]]:
    """Documents, and what is told of each."""
    return [
        ("", "not well-formed XML"),
        ("<html><body>Sign in</body></html>", "no metadata of SAML"),
        (f"<!DOCTYPE r []>{_entity()}", "document type"),
        (f'<!DOCTYPE r [<!ENTITY e SYSTEM "file:///etc/passwd">]>{_entity(entity="&e;")}', "document type"),
        (metadata().decode(), "metadata of an application"),
        (_entities(metadata().decode()), "none of the entities is a directory"),
        (_entities(_entity(), _entity(entity="https://two.example")), f"there are 2 directories: {DIRECTORY}, https://two.example."),
        (_entities(*(_entity(entity=f"https://{n}.example") for n in range(7))), "and 2 more"),
        (_entities(*["<md:EntityDescriptor/>"] * 2001), "more than 2000 entities"),
        (_entity(""), "there is no directory"),
        (_entity(_provider() * 2), "one IDPSSODescriptor"),
        (_entity(_provider(protocols="urn:oasis:names:tc:SAML:1.1:protocol")), "does not speak SAML 2.0"),
        (_entity(entity=""), "entity_id"),
        (_entity(entity="a b"), "entity_id"),
        (_entity(_provider("")), "no certificate for signatures"),
        (_entity(_provider(_key(directory(), ' use="encryption"'))), "no certificate for signatures"),
        (_entity(_provider(_key(made("short", "rsa1024")))), "RSA key of 2048"),
        (_entity(_provider(_key(made("short", "p192")))), "elliptic curve of 256 bits"),
        (_entity(_provider(_key(Pair("x", "x")))), "cannot be read"),
        (_entity(_provider("".join(_key(made(f"many {n}", "p256")) for n in range(11)))), "at most 10 certificates"),
        (_entity(_provider(sign_in="")), "no SingleSignOnService"),
        (_entity(_provider(sign_in=_endpoint("SingleSignOnService", _SOAP, _SSO))), "no SingleSignOnService"),
        (_entity(attributes=' validUntil="tomorrow"'), "validUntil is no time"),
        (_entity(attributes=' cacheDuration="P"'), "cacheDuration is no duration"),
        (_entity(attributes=' cacheDuration="-P1D"'), "cacheDuration is no duration"),
        (_entity(attributes=' cacheDuration="PT99999999999999H"'), "cacheDuration is no duration"),
        (" " * (1 << 20) + _entity(), "more than 1024 KiB"),
        *(
            (_entity(_provider(sign_in=_endpoint("SingleSignOnService", _REDIRECT, url))), "no web address")
            for url in (
                "",
                "javascript:alert(1)",
                "/sso",
                "https://",
                "https://user@a.example",
                "https://a.example/#x",
                "https://[::1",
                "https://é",
            )
        ),
    ]


def test_what_cannot_be_used_is_refused_and_the_mend_is_named() -> None:
    for text, told in _useless():
        with pytest.raises(BadRequest, match=told.replace("(", r"\(")) as refused:
            read_directory(text.encode())
        assert len(refused.value.message) < 700


def _signed(text: str, signer: Pair | None = None, path: str = ".", **more: Any) -> bytes:
    root = document(text)
    element = root if path == "." else root.find(path, {"md": MD})
    element.set("ID", "_m1")
    sign(element, signer or directory(), **more)
    return written(root).encode()


@pytest.mark.parametrize(
    ("made_up", "counts"),
    [
        (lambda: _signed(_entity()), True),
        (lambda: _signed(_entities(_entity())), True),
        (lambda: _signed(_entities(_entity()), path="md:EntityDescriptor"), True),
        (lambda: _signed(_entity(), made("stranger")), False),
        (lambda: _signed(_entity(), made("stranger"), told=directory()), False),
        (lambda: _signed(_entity()).replace(_SSO.encode(), b"https://evil.example/sso"), False),
        (lambda: _signed(_entity(), method=f"{DS}rsa-sha1"), False),
        (lambda: _signed(_entity(), change=lambda one: one.find(".//{*}Reference").set("URI", "")), False),
        (lambda: _signed(_entities(_entity(), f'<md:Other ID="_m1" xmlns:md="{MD}"/>'), path="md:EntityDescriptor"), False),
    ],
)
def test_whether_known_certificates_vouch_for_the_document(made_up: Callable[[], bytes], *, counts: bool) -> None:
    read = read_directory(made_up(), (pair("ours").certificate, directory().certificate))
    assert read.is_signed
    assert read.signed_by == (fingerprint(directory().certificate) if counts else None)


def test_a_signature_of_another_entity_vouches_for_nothing() -> None:
    """The certificate in the document itself vouches for nothing, either."""
    application = document(metadata().decode())
    application.set("ID", "_m1")
    application.insert(0, etree.Element("x"))
    sign(application, directory())
    text = _entities(written(application), _entity())
    assert read_directory(text.encode(), (directory().certificate,)).signed_by is None
    assert read_directory(_signed(_entity())).signed_by is None
    moved = document(_entity())
    moved.set("ID", "_m1")
    moved.find(f"{{{MD}}}IDPSSODescriptor").append(template("#_m1"))
    assert read_directory(written(moved).encode(), (directory().certificate,)).is_signed is False


def test_a_certificate_may_be_pasted_in_many_ways() -> None:
    pem, bare = directory().certificate, directory().bare
    wrapped = "\r\n".join(bare[place : place + 60] for place in range(0, len(bare), 60))
    for text in (
        pem,
        bare,
        wrapped,
        pem.replace("\n", "\r\n"),
        pem.replace("\n", "\r"),
        pem.replace("\n", " "),
        pem.replace("\n", "\\n"),
        f"\ufeff Subject: CN=directory\n{pem}\nmore",
        f"  {bare}\t\n",
    ):
        read = pasted_certificate(text)
        assert read.pem == pem
        assert read.fingerprint == fingerprint(pem)


def _no_certificates() -> list[tuple[str, str]]:
    return [
        ("", "cannot be read"),
        ("hello", "cannot be read"),
        (directory().bare[:-8], "cannot be read"),
        (directory().certificate * 2, "several"),
        (directory().key, "private key"),
        (directory().certificate + directory().key, "private key"),
        (made("short", "rsa1024").certificate, "RSA key of 2048"),
        ("a" * (33 << 10), "more than 32 KiB"),
    ]


def test_what_is_no_certificate_is_refused_in_words() -> None:
    for text, told in _no_certificates():
        with pytest.raises(BadRequest, match=f"certificate: .*{told}"):
            pasted_certificate(text)

"""pysaml2 as the service provider: another library reads our metadata, sends people here, and accepts our answers."""

from base64 import b64decode
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from saml2 import BINDING_HTTP_POST, BINDING_HTTP_REDIRECT, samlp
from saml2.client import Saml2Client
from saml2.config import SPConfig
from saml2.metadata import entity_descriptor
from saml2.response import StatusNoPassive, StatusRequestDenied
from saml2.samlp import STATUS_SUCCESS
from saml2.sigver import RSACrypto, verify_redirect_signature

from ops.browser.page_reader import PageReader
from ops.stand_ins.saml import Pair, pair
from tests.http.browsing import Tabs
from tests.http.client import Received
from tests.http.federation.providing import ACS, SLO, SP, Providing, slo, sso
from tests.http.people import BASE_URL, Person
from tests.tools import needs, place_of

_IDP = f"{BASE_URL}/saml/acme/app"

pytestmark = [
    needs("xmlsec1"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


def _config(directory: Path, own: Pair, idp: bytes | None, *, signs: bool, encrypts: bool) -> SPConfig:
    (directory / "sp.pem").write_text(own.certificate)
    (directory / "sp.key").write_text(own.key)
    key = {"key_file": str(directory / "sp.key"), "cert_file": str(directory / "sp.pem")}
    settings: dict[str, Any] = {
        "entityid": SP,
        "xmlsec_binary": place_of("xmlsec1"),
        "allow_unknown_attributes": True,
        "service": {
            "sp": {
                "endpoints": {
                    "assertion_consumer_service": [(ACS, BINDING_HTTP_POST)],
                    "single_logout_service": [(SLO, BINDING_HTTP_POST)],
                },
                "authn_requests_signed": signs,
                "logout_requests_signed": True,
                "want_assertions_signed": True,
                "want_response_signed": True,
                "allow_unsolicited": True,
                "signing_algorithm": "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256",
                "digest_algorithm": "http://www.w3.org/2001/04/xmlenc#sha256",
            }
        },
        **key,
    }
    if encrypts:
        settings["encryption_keypairs"] = [key]
    if idp is not None:
        settings["metadata"] = {"inline": [idp.decode()]}
    config = SPConfig()
    config.load(settings)
    return config


async def _joined(provider: Providing, directory: Path, *, signs: bool = True, encrypts: bool = False) -> Saml2Client:
    """Both sides exchange metadata."""
    own = pair()
    descriptor = str(entity_descriptor(_config(directory, own, None, signs=signs, encrypts=encrypts))).encode()
    (await provider.upload(descriptor)).ok()
    (await provider.call("POST", body={"enabled": True})).ok()
    await provider.certificate()
    idp = (await provider.unlimited.get("/saml/acme/app/metadata")).body
    return Saml2Client(_config(directory, own, idp, signs=signs, encrypts=encrypts))


async def _asked(client: Saml2Client, browser: Tabs, binding: str) -> tuple[str, dict[str, str]]:
    """Sends a person here, and returns the request's id and the fields that come back."""
    request_id, info = client.prepare_for_authenticate(entityid=_IDP, binding=binding, relay_state="here")
    if binding == BINDING_HTTP_REDIRECT:
        place = urlsplit(dict(info["headers"])["Location"])
        assert place.path == sso()
        answer = await browser.request("GET", f"{place.path}?{place.query}")
    else:
        (form,) = PageReader(str(info["data"]).encode()).forms
        answer = await browser.request("POST", sso(), {name: value for name, value in form.fields.items() if name})
    assert answer.status == 200, answer.body
    (form,) = PageReader(answer.body).forms
    assert form.action == ACS
    return request_id, form.fields


@pytest.mark.parametrize("encrypts", [False, True], ids=["plain", "encrypted"])
@pytest.mark.parametrize("signs", [True, False], ids=["signed", "unsigned"])
@pytest.mark.parametrize("binding", [BINDING_HTTP_REDIRECT, BINDING_HTTP_POST], ids=["redirect", "post"])
async def test_it_signs_people_in(provider: Providing, tmp_path: Path, binding: str, signs: bool, encrypts: bool) -> None:
    client = await _joined(provider, tmp_path, signs=signs, encrypts=encrypts)
    ada = provider.people.add("ada@example.org")
    request_id, fields = await _asked(client, provider.signed_in(ada), binding)
    assert fields["RelayState"] == "here"
    response = client.parse_authn_request_response(fields["SAMLResponse"], BINDING_HTTP_POST, {request_id: "/"})
    assert response.ava == {"email": ["ada@example.org"], "id": [str(ada.user)]}
    assert response.issuer() == _IDP
    assert response.in_response_to == request_id


@pytest.mark.parametrize("answer", ["allow", "deny"])
async def test_it_takes_what_a_person_answers(provider: Providing, tmp_path: Path, answer: str) -> None:
    client = await _joined(provider, tmp_path)
    browser = provider.signed_in(provider.people.add("ada@example.org"), allowed=False)
    request_id, info = client.prepare_for_authenticate(entityid=_IDP, binding=BINDING_HTTP_REDIRECT, relay_state="here")
    place = urlsplit(dict(info["headers"])["Location"])
    tab = await provider.opened(browser.tab(), f"{place.path}?{place.query}")
    assert "Allow App to access your account?" in tab.page.text
    (form,) = (await tab.send(answer=answer)).page.forms
    assert (form.action, form.fields["RelayState"]) == (ACS, "here")

    def read() -> Any:
        return client.parse_authn_request_response(form.fields["SAMLResponse"], BINDING_HTTP_POST, {request_id: "/"})

    if answer == "allow":
        assert read().ava["email"] == ["ada@example.org"]
    else:
        with pytest.raises(StatusRequestDenied):
            read()


async def test_who_may_not_be_asked_is_a_status_to_it(provider: Providing, tmp_path: Path) -> None:
    client = await _joined(provider, tmp_path)
    browser = provider.signed_in(provider.people.add(), allowed=False)
    request_id, info = client.prepare_for_authenticate(entityid=_IDP, binding=BINDING_HTTP_REDIRECT, is_passive="true")
    place = urlsplit(dict(info["headers"])["Location"])
    (form,) = PageReader((await browser.request("GET", f"{place.path}?{place.query}")).body).forms
    with pytest.raises(StatusNoPassive):
        client.parse_authn_request_response(form.fields["SAMLResponse"], BINDING_HTTP_POST, {request_id: "/"})


async def test_it_takes_what_nobody_asked_for(provider: Providing, tmp_path: Path) -> None:
    client = await _joined(provider, tmp_path)
    ada = provider.allow(provider.people.add("ada@example.org"))
    path = "/api/organizations/acme/services/app/saml/login"
    answer = await provider.unlimited.get(path, token=await provider.people.token(ada))
    (form,) = PageReader(answer.body).forms
    response = client.parse_authn_request_response(form.fields["SAMLResponse"], BINDING_HTTP_POST, {})
    assert response.ava["email"] == ["ada@example.org"]


@pytest.mark.parametrize("binding", [BINDING_HTTP_REDIRECT, BINDING_HTTP_POST], ids=["redirect", "post"])
async def test_it_signs_people_out(provider: Providing, tmp_path: Path, binding: str) -> None:
    client = await _joined(provider, tmp_path)
    ada = provider.people.add("ada@example.org")
    browser = provider.signed_in(ada)
    request_id, fields = await _asked(client, browser, BINDING_HTTP_REDIRECT)
    response = client.parse_authn_request_response(fields["SAMLResponse"], BINDING_HTTP_POST, {request_id: "/"})
    asked = client.do_logout(response.name_id, [_IDP], "", None, sign=True, expected_binding=binding)
    _, info = asked[_IDP]
    if binding == BINDING_HTTP_REDIRECT:
        place = urlsplit(dict(info["headers"])["Location"])
        answer = await browser.request("GET", f"{place.path}?{place.query}")
    else:
        (form,) = PageReader(str(info["data"]).encode()).forms
        answer = await browser.request("POST", slo(), {name: value for name, value in form.fields.items() if name})
    assert answer.status == 200, answer.body
    (form,) = PageReader(answer.body).forms
    assert form.action == SLO
    answered = client.parse_logout_request_response(form.fields["SAMLResponse"], BINDING_HTTP_POST)
    assert answered.status_ok()
    assert _is_over(provider, ada)


async def test_it_takes_what_we_send_where_nothing_is_said_of_the_binding(provider: Providing, tmp_path: Path) -> None:
    """A service provider configured by hand, with an address alone, asks by redirect and gets a redirect with a signed query."""
    pem = await provider.ready(slo_url=SLO)
    idp = (await provider.unlimited.get("/saml/acme/app/metadata")).body
    config = _config(tmp_path, pair(), idp, signs=False, encrypts=False)
    config.setattr(
        "sp",
        "endpoints",
        {"single_logout_service": [(SLO, BINDING_HTTP_REDIRECT)], "assertion_consumer_service": [(ACS, BINDING_HTTP_POST)]},
    )
    client = Saml2Client(config)
    ada = provider.people.add("ada@example.org")
    browser = provider.signed_in(ada)
    request_id, fields = await _asked(client, browser, BINDING_HTTP_REDIRECT)
    response = client.parse_authn_request_response(fields["SAMLResponse"], BINDING_HTTP_POST, {request_id: "/"})
    _, info = client.do_logout(response.name_id, [_IDP], "", None, sign=False, expected_binding=BINDING_HTTP_REDIRECT)[_IDP]
    place = urlsplit(dict(info["headers"])["Location"])
    answer = await browser.request("GET", f"{place.path}?{place.query}")
    answered = client.parse_logout_request_response(_signed_by(answer, pem)["SAMLResponse"], BINDING_HTTP_REDIRECT)
    assert answered.status_ok()
    assert _is_over(provider, ada)
    # A sign-out here reaches the service provider in the same way.
    ada = provider.people.add("grace@example.org")
    browser = provider.signed_in(ada)
    request_id, fields = await _asked(client, browser, BINDING_HTTP_REDIRECT)
    response = client.parse_authn_request_response(fields["SAMLResponse"], BINDING_HTTP_POST, {request_id: "/"})
    tab = await browser.tab().open("/ui")
    await tab.send(next(at for at, one in enumerate(tab.page.forms) if one.action == "/ui/sign-out"))
    told = _signed_by(tab.shown, pem)
    info = client.handle_logout_request(told["SAMLRequest"], response.name_id, BINDING_HTTP_REDIRECT, sign=False)
    place = urlsplit(dict(info["headers"])["Location"])
    assert place.path == slo()
    done = await browser.request("GET", f"{place.path}?{place.query}")
    assert (done.status, b"You are signed out" in done.body) == (200, True)


def _signed_by(answer: Received, pem: str) -> dict[str, str]:
    """The fields of an address to which an answer leads, once pysaml2 has verified the signature over them."""
    location = answer.header("location") or PageReader(answer.body).refresh or ""
    assert location.startswith(f"{SLO}?"), location
    fields = dict(parse_qsl(urlsplit(location).query, strict_parsing=True))
    certificate = "".join(line for line in pem.splitlines() if not line.startswith("-----"))
    assert verify_redirect_signature(fields, RSACrypto(None), certificate)
    assert not verify_redirect_signature({**fields, "RelayState": "other"}, RSACrypto(None), certificate)
    return fields


@pytest.mark.parametrize("format_", ["emailAddress", "unspecified", "persistent", "transient"])
async def test_it_is_told_of_a_sign_out_here(provider: Providing, tmp_path: Path, format_: str) -> None:
    client = await _joined(provider, tmp_path)
    (await provider.call("POST", body={"enabled": True, "name_id_format": format_})).ok()
    ada = provider.people.add("ada@example.org")
    browser = provider.signed_in(ada)
    request_id, fields = await _asked(client, browser, BINDING_HTTP_POST)
    response = client.parse_authn_request_response(fields["SAMLResponse"], BINDING_HTTP_POST, {request_id: "/"})
    tab = await browser.tab().open("/ui")
    await tab.send(next(at for at, one in enumerate(tab.page.forms) if one.action == "/ui/sign-out"))
    (form,) = tab.page.forms
    assert form.action == SLO
    assert response.name_id.format.endswith(f":{format_}")
    info = client.handle_logout_request(form.fields["SAMLRequest"], response.name_id, BINDING_HTTP_POST, sign=True)
    (form,) = PageReader(str(info["data"]).encode()).forms
    assert STATUS_SUCCESS.encode() in b64decode(form.fields["SAMLResponse"])
    assert form.action == f"{BASE_URL}{slo()}"
    done = await browser.request("POST", slo(), {name: value for name, value in form.fields.items() if name})
    assert (done.status, done.header("location")) == (303, "/ui/signed-out")
    assert samlp is not None


def _is_over(provider: Providing, person: Person) -> bool:
    (session,) = provider.people.rows("select revoked_at from sessions where id = %s", person.session)
    return session["revoked_at"] is not None

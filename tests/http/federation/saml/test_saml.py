"""SAML as members manage it: configuration, certificates, metadata in both directions, and the kept exchanges."""

from base64 import b64decode, b64encode
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import signxml.exceptions
import trio
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from lxml import etree

from actors.sweepers import saml_certificate_watcher
from core.domain.federation.saml.configurations import saml_certificate_context
from core.domain.identifiers import SamlCertificateId
from ops.stand_ins.saml import Pair, pair
from tests.http.client import refused
from tests.http.federation.providing import (
    ACS,
    NAMESPACES,
    SLO,
    SP,
    Providing,
    asking,
    authn_request,
    metadata,
    redirect_logout,
    sent,
    verifier,
)
from tests.http.people import BASE_URL
from tests.patience import PATIENCE

_PUBLIC = "/saml/acme/app/metadata"
_BINDING = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST"
_ONE_MORE = f"<md:AssertionConsumerService index='1' Location='https://a.example' Binding='{_BINDING}'/>"
_CERTIFICATE = {"id", "public_key", "valid_from", "valid_until", "is_active", "created_at", "last_signed_at"}


async def test_an_unconfigured_service_is_disabled(provider: Providing) -> None:
    assert (await provider.call("GET")).ok() == {
        "enabled": False,
        "entity_id": None,
        "acs_url": None,
        "slo_url": None,
        "name_id_format": None,
        "attribute_mapping": None,
        "sign_assertions": True,
        "sign_response": True,
        "require_signed_requests": False,
        "has_certificate": False,
        "acs_endpoints": [],
        "request_certificates": 0,
        "encrypts_assertions": False,
        "metadata_uploaded_at": None,
        "metadata_fetched_at": None,
    }
    assert (await provider.call("GET", "/certificate")).status == 404
    assert refused(await provider.call("POST", "/certificate")) == (400, "BAD_REQUEST")
    assert (await provider.call("POST", "/certificate/activate")).status == 404
    assert (await provider.call("GET", "/exchanges")).ok() == {"exchanges": []}
    (await provider.call("DELETE")).ok()
    assert provider.audited() == []


async def test_it_is_configured_changed_and_disabled(provider: Providing) -> None:
    body = {
        "enabled": True,
        "entity_id": SP,
        "acs_url": ACS,
        "slo_url": SLO,
        "name_id_format": "persistent",
        "attribute_mapping": {"id": "uid"},
    }
    assert set((await provider.call("POST", body=body)).ok()) == {"success", "message"}
    shown = (await provider.call("GET")).ok()
    assert {name: shown[name] for name in body} == body
    (await provider.call("POST", body={"enabled": True, "entity_id": SP, "acs_url": ACS, "sign_response": False, "slo_url": None})).ok()
    shown = (await provider.call("GET")).ok()
    assert (shown["entity_id"], shown["slo_url"], shown["sign_response"], shown["sign_assertions"]) == (SP, None, False, True)
    made = await provider.certificate()
    assert (await provider.call("GET")).ok()["has_certificate"] is True
    assert (await provider.call("GET", "/certificate")).ok()["id"] == made["id"]
    assert set((await provider.call("DELETE")).ok()) == {"success", "message"}
    shown = (await provider.call("GET")).ok()
    assert (shown["enabled"], shown["has_certificate"], shown["entity_id"]) == (False, False, SP)
    assert (await provider.call("GET", "/certificate")).status == 404
    assert provider.people.rows("select * from saml_certificates") == []
    assert [one["action"] for one in provider.audited("service.saml%")] == [
        "service.saml.updated",
        "service.saml.updated",
        "service.saml.certificate.created",
        "service.saml.disabled",
    ]
    (*_, changed, _, _) = provider.audited("service.saml%")
    assert changed["details"]["old_slo_url"] == SLO
    assert changed["details"]["new_sign_response"] is False


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"entity_id": None}, "entity_id"),
        ({"entity_id": ""}, "entity_id"),
        ({"entity_id": "two words"}, "entity_id"),
        ({"entity_id": "x" * 1025}, "entity_id"),
        ({"acs_url": None}, "acs_url"),
        ({"acs_url": "not a url"}, "acs_url"),
        ({"acs_url": "http://crm.example.com/acs"}, "acs_url"),
        ({"acs_url": "javascript:alert(1)"}, "acs_url"),
        ({"slo_url": "ftp://crm.example.com"}, "slo_url"),
        ({"name_id_format": "kerberos"}, "name_id_format"),
        ({"attribute_mapping": {"password": "x"}}, "attribute_mapping"),
        ({"attribute_mapping": {"email": ""}}, "attribute_mapping"),
        ({"attribute_mapping": {"email": 1}}, "attribute_mapping"),
        ({"attribute_mapping": {"email": "a\u0001"}}, "attribute_mapping"),
        ({"attribute_mapping": {str(one): "x" for one in range(60)}}, "attribute_mapping"),
        ({"sign_assertions": False, "sign_response": False}, "sign_assertions"),
        ({"require_signed_requests": True}, "require_signed_requests"),
    ],
)
async def test_what_cannot_be_is_refused_in_words(provider: Providing, changes: dict[str, Any], named: str) -> None:
    answer = await provider.call("POST", body={"enabled": True, "entity_id": SP, "acs_url": ACS, **changes})
    assert refused(answer) == (400, "BAD_REQUEST")
    assert named in answer.json()["error"]
    assert (await provider.call("GET")).ok()["enabled"] is False


@pytest.mark.parametrize("by", ["hand", "metadata"])
async def test_what_is_left_out_stays_and_null_takes_it_back(provider: Providing, by: str) -> None:
    if by == "metadata":
        (await provider.upload(metadata(signing=(pair(),)))).ok()
    said: dict[str, Any] = {
        "enabled": True,
        "entity_id": SP,
        "acs_url": ACS,
        "slo_url": SLO,
        "name_id_format": "persistent",
        "attribute_mapping": {"id": "uid"},
        "sign_response": False,
        "require_signed_requests": by == "metadata",
    }
    (await provider.call("POST", body=said)).ok()
    kept = (await provider.call("GET")).ok()
    assert {name: kept[name] for name in said} == said
    for name, value in said.items():
        (await provider.call("POST", body={"enabled": True, name: value})).ok()
        assert (await provider.call("GET")).ok() == kept, name
    for name in ("slo_url", "name_id_format", "attribute_mapping"):
        (await provider.call("POST", body={"enabled": True, name: None})).ok()
        kept[name] = None
        assert (await provider.call("GET")).ok() == kept, name
    for name in ("entity_id", "acs_url"):
        assert refused(await provider.call("POST", body={"enabled": True, name: None})) == (400, "BAD_REQUEST")
    # Another service provider has its own address, and none of the addresses of the earlier one.
    assert refused(await provider.call("POST", body={"enabled": True, "entity_id": f"{SP}/other"})) == (400, "BAD_REQUEST")
    assert (await provider.call("GET")).ok() == kept


async def test_enabled_needs_both_and_disabled_neither(provider: Providing) -> None:
    assert (await provider.call("POST", body={"enabled": True, "acs_url": ACS})).status == 400
    assert (await provider.call("POST", body={"enabled": True, "entity_id": SP})).status == 400
    (await provider.call("POST", body={"enabled": False})).ok()
    assert (await provider.call("POST", body={})).status == 400
    for said, missing in (({"acs_url": ACS}, "entity_id"), ({"entity_id": SP}, "acs_url")):
        answer = await provider.call("POST", body={"enabled": True, "slo_url": SLO, **said})
        assert refused(answer) == (400, "BAD_REQUEST")
        assert answer.json()["error"] == f"{missing}: required when SAML is enabled"
    assert (await provider.call("GET")).ok()["slo_url"] is None
    # Consents given before still count.
    (await provider.call("POST", body={"enabled": True, "entity_id": SP, "acs_url": ACS})).ok()
    (await provider.call("POST", body={"enabled": True})).ok()
    (await provider.call("POST", body={"enabled": False, "slo_url": SLO})).ok()
    (await provider.upload(metadata())).ok()
    (await provider.call("POST", body={"enabled": True})).ok()


async def test_who_may(provider: Providing) -> None:
    await provider.configure()
    member = provider.resident(provider.acme, "member")
    stranger = provider.people.add()
    for method, suffix, body in (
        ("POST", "", {"enabled": False}),
        ("DELETE", "", None),
        ("POST", "/certificate", None),
        ("POST", "/certificate/activate", None),
        ("GET", "/exchanges", None),
    ):
        assert (await provider.call(method, suffix, body, who=member)).status == 403
        assert (await provider.call(method, suffix, body, who=stranger)).status == 403
        assert (await provider.call(method, suffix, body, service="none")).status == 404
    (await provider.call("GET", who=member)).ok()
    assert (await provider.call("GET", "/certificate", who=member)).status == 404
    assert (await provider.call("GET", who=stranger)).status == 403


async def test_a_certificate_is_valid_for_three_years_and_its_key_is_sealed(provider: Providing) -> None:
    await provider.configure()
    made = await provider.certificate()
    assert set(made) == _CERTIFICATE
    assert made["is_active"] is True
    certificate = x509.load_pem_x509_certificate(made["public_key"].encode())
    since, until = datetime.fromisoformat(made["valid_from"]), datetime.fromisoformat(made["valid_until"])
    assert (since, until) == (certificate.not_valid_before_utc, certificate.not_valid_after_utc)
    assert timedelta(days=3 * 365) <= until - since <= timedelta(days=3 * 365 + 1)
    assert certificate.public_key().key_size == 2048  # type: ignore[union-attr]
    (kept,) = provider.people.rows("select * from saml_certificates")
    assert b"PRIVATE KEY" not in bytes(kept["sealed_private_key"])
    context = saml_certificate_context(SamlCertificateId(kept["id"]))
    assert b"PRIVATE KEY" in provider.postern.foundation.keyring.open(bytes(kept["sealed_private_key"]), context)
    again = await provider.certificate()
    assert again["public_key"] != made["public_key"]
    assert len(provider.people.rows("select * from saml_certificates")) == 1


async def test_metadata_tell_a_service_provider_everything(provider: Providing) -> None:
    assert (await provider.unlimited.get(_PUBLIC)).status == 404
    await provider.configure()
    assert (await provider.unlimited.get(_PUBLIC)).status == 404
    certificate = (await provider.certificate())["public_key"]
    answer = await provider.unlimited.get(_PUBLIC)
    assert answer.status == 200
    assert answer.header("content-type") == "application/samlmetadata+xml"
    assert answer.header("cache-control") == "public, max-age=300"
    root = etree.fromstring(answer.body)
    assert root.get("entityID") == f"{BASE_URL}/saml/acme/app"
    (provider_,) = root.findall("md:IDPSSODescriptor", NAMESPACES)
    assert provider_.get("WantAuthnRequestsSigned") == "false"
    (key,) = provider_.findall("md:KeyDescriptor", NAMESPACES)
    assert key.get("use") == "signing"
    assert key.find(".//ds:X509Certificate", NAMESPACES).text in certificate.replace("\n", "")
    formats = [one.text.rpartition(":")[2] for one in provider_.findall("md:NameIDFormat", NAMESPACES)]
    assert formats == ["emailAddress", "unspecified", "persistent", "transient"]
    for service in ("SingleSignOnService", "SingleLogoutService"):
        places = {one.get("Binding").rpartition(":")[2]: one.get("Location") for one in provider_.findall(f"md:{service}", NAMESPACES)}
        end = "sso" if service == "SingleSignOnService" else "slo"
        assert places == dict.fromkeys(("HTTP-Redirect", "HTTP-POST"), f"{BASE_URL}/saml/acme/app/{end}")
    signed = await provider.unlimited.get(f"{_PUBLIC}?signed=true")
    seen = verifier().verify(signed.body, x509_cert=certificate, id_attribute="ID")
    assert not isinstance(seen, list)
    assert seen.signed_xml is not None
    assert seen.signed_xml.get("entityID") == root.get("entityID")
    (await provider.upload(metadata(signing=(pair(),)))).ok()
    await provider.configure(require_signed_requests=True)
    assert b'WantAuthnRequestsSigned="true"' in (await provider.unlimited.get(_PUBLIC)).body
    assert (await provider.unlimited.get("/saml/globex/app/metadata")).status == 404
    (*_, request) = provider.log.events("request")
    assert request["db_round_trips"] <= 2


async def test_uploaded_metadata_fill_the_configuration(provider: Providing) -> None:
    answer = await provider.upload(metadata(signing=(pair(), pair("old")), encryption=pair("enc"), WantAssertionsSigned="true"))
    shown = answer.ok()
    assert shown == (await provider.call("GET")).ok()
    assert (shown["enabled"], shown["entity_id"], shown["acs_url"], shown["slo_url"]) == (False, SP, ACS, SLO)
    assert [(one["index"], one["url"], one["is_default"]) for one in shown["acs_endpoints"]] == [(0, ACS, True), (7, f"{ACS}/7", False)]
    assert shown["name_id_format"] == "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent"
    assert (shown["request_certificates"], shown["encrypts_assertions"]) == (2, True)
    assert shown["metadata_uploaded_at"] is not None
    (await provider.call("POST", body={"enabled": True})).ok()
    assert (await provider.call("GET")).ok()["entity_id"] == SP
    (await provider.upload(metadata(slo=redirect_logout(f"{SLO}/r")))).ok()
    (kept,) = provider.people.rows("select * from saml_configurations")
    assert (kept["slo_binding"], kept["slo_url"], kept["signing_certificates"]) == ("redirect", f"{SLO}/r", [])


async def test_the_default_endpoint_is_not_one_that_says_it_is_none(provider: Providing) -> None:
    document = metadata(validUntil="9999-12-31T23:59:59Z").replace(b'isDefault="true"', b'isDefault="false"')
    shown = (await provider.upload(document)).ok()
    assert shown["acs_url"] == f"{ACS}/7"
    assert [one["is_default"] for one in shown["acs_endpoints"]] == [False, False]


async def test_metadata_do_not_let_unsigned_requests_in_again(provider: Providing) -> None:
    await provider.ready()
    (await provider.upload(metadata(signing=(pair(),)))).ok()
    (await provider.call("POST", body={"enabled": True, "require_signed_requests": True})).ok()
    assert (await provider.upload(metadata(signing=(pair("new"),)))).ok()["require_signed_requests"] is True
    browser = provider.signed_in(provider.people.add())
    assert (await browser.request("GET", asking())).status == 400
    assert sent(await browser.request("GET", asking(signer=pair("new")))).status == "Success"
    answer = await provider.upload(metadata())
    assert refused(answer) == (400, "BAD_REQUEST")
    assert "require_signed_requests" in answer.json()["error"]
    assert (await provider.call("GET")).ok()["request_certificates"] == 1
    (*_, replaced) = provider.audited("service.saml.updated")
    told = [x509.load_pem_x509_certificate(pair(one).certificate.encode()).fingerprint(hashes.SHA256()).hex() for one in ("sp", "new")]
    fields = ("old_signing_certificates_sha256", "new_signing_certificates_sha256")
    assert {field: replaced["details"][field] for field in fields} == {field: [one] for field, one in zip(fields, told, strict=True)}


@pytest.mark.parametrize("disabled_first", [False, True])
async def test_another_service_provider_is_not_sent_what_is_for_the_one_before(provider: Providing, disabled_first: bool) -> None:
    (await provider.upload(metadata(signing=(pair(),), encryption=pair("enc")))).ok()
    await provider.ready()
    if disabled_first:
        (await provider.call("DELETE")).ok()
    await provider.ready(entity_id="https://other.example", acs_url="https://other.example/acs")
    shown = (await provider.call("GET")).ok()
    assert (shown["request_certificates"], shown["encrypts_assertions"], shown["acs_endpoints"]) == (0, False, [])
    assert (shown["slo_url"], shown["metadata_uploaded_at"]) == (None, None)
    browser = provider.signed_in(provider.allow(provider.people.add(), "https://other.example"), allowed=False)
    request = authn_request(issuer="https://other.example")
    assert (await browser.request("GET", asking(request))).status == 400
    request = authn_request(issuer="https://other.example", AssertionConsumerServiceURL="https://other.example/acs")
    assert sent(await browser.request("GET", asking(request)), "https://other.example/acs").status == "Success"


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"no xml",
        b"<a/>",
        metadata().replace(b"SPSSODescriptor", b"IDPSSODescriptor"),
        b"<!DOCTYPE a>" + metadata(),
        metadata().replace(ACS.encode(), b"javascript:alert(1)"),
        metadata().replace(SLO.encode(), b"http://crm.example.com"),
        metadata().replace(b'index="7"', b'index="x"'),
        metadata().replace(b"HTTP-POST", b"HTTP-Artifact"),
        metadata(signing=(pair(),)).replace(pair().bare.encode(), b"AAAA"),
        metadata(entity="two words"),
        metadata(more=_ONE_MORE * 60),
        metadata(validUntil="2001-01-31T12:00:00Z"),
        metadata().replace(b"SAML:2.0:protocol", b"SAML:1.1:protocol"),
    ],
)
async def test_metadata_that_say_too_little_are_refused_in_words(provider: Providing, document: bytes) -> None:
    answer = await provider.upload(document)
    assert refused(answer) == (400, "BAD_REQUEST")
    assert "metadata" in answer.json()["error"] or "entity_id" in answer.json()["error"]


_RSA = bytes.fromhex("06092a864886f70d010101")


@pytest.mark.parametrize(
    ("part", "other"),
    [
        (bytes.fromhex("a003020102"), bytes.fromhex("a003020103")),
        (_RSA, bytes.fromhex("06092a864886f70d01017f")),
        (_RSA, bytes.fromhex("06092a864886f70d01010a")),
    ],
    ids=["a version that does not exist", "an unknown kind of key", "a key for RSA-PSS alone"],
)
async def test_certificates_that_cannot_be_read_are_refused_in_words(provider: Providing, part: bytes, other: bytes) -> None:
    certificate = b64decode(pair().bare)
    assert part in certificate
    broken = b64encode(certificate.replace(part, other, 1))
    for use in ({"signing": (pair(),)}, {"encryption": pair()}):
        answer = await provider.upload(metadata(**use).replace(pair().bare.encode(), broken))
        assert refused(answer) == (400, "BAD_REQUEST")
        assert "certificate" in answer.json()["error"]


def _with_key(numbers: rsa.RSAPublicNumbers) -> Pair:
    name = x509.Name([])
    made = (
        x509.CertificateBuilder(name, name)
        .public_key(numbers.public_key())
        .serial_number(7)
        .not_valid_before(datetime.now(UTC))
        .not_valid_after(datetime.now(UTC) + timedelta(days=1))
        .sign(load_pem_private_key(pair().key.encode(), None), hashes.SHA256())  # type: ignore[arg-type]  # it is RSA
    )
    return Pair(made.public_bytes(Encoding.PEM).decode(), "")


async def test_a_key_that_encrypts_nothing_is_refused_or_the_service_provider_is_told(provider: Providing) -> None:
    answer = await provider.upload(metadata(encryption=_with_key(rsa.RSAPublicNumbers(65537, (1 << 20_000) + 1))))
    assert refused(answer) == (400, "BAD_REQUEST")
    # OpenSSL loads this key, but does not use it.
    (await provider.upload(metadata(encryption=_with_key(rsa.RSAPublicNumbers((1 << 2000) + 1, (1 << 4096) + 1))))).ok()
    await provider.ready()
    got = sent(await provider.signed_in(provider.people.add()).request("GET", asking()))
    assert got.status == "Responder"
    assert (await provider.exchanges())[0]["reason"] == "The service provider's key for encryption cannot be used"


async def test_metadata_have_a_media_type_and_a_limit(provider: Providing) -> None:
    for media_type in ("text/xml", "application/xml; charset=utf-8"):
        (await provider.call("POST", "/metadata", metadata(), headers=[("content-type", media_type)])).ok()
    assert (await provider.call("POST", "/metadata", metadata(), headers=[("content-type", "text/plain")])).status == 415
    big = metadata().replace(b"<md:SPSSO", b" " * (1 << 20) + b"<md:SPSSO")
    assert (await provider.upload(big)).status == 413
    # A comment does not belong to a value.
    (await provider.upload(metadata().replace(b"nameid-format:persistent", b"nameid-format:per<!-- a -->sistent"))).ok()
    assert (await provider.call("GET")).ok()["name_id_format"].endswith("persistent")


async def test_a_fetch_right_after_a_new_certificate_is_put_on_record(provider: Providing) -> None:
    await provider.ready()

    async def fetched() -> Any:
        assert (await provider.unlimited.get(_PUBLIC)).status == 200
        return (await provider.call("GET", "/certificate")).ok()["metadata_fetched_at"]

    first = await fetched()
    await provider.certificate("?activate=false")
    assert (await provider.call("GET", "/certificate")).ok()["next_was_fetched"] is False
    second = await fetched()
    assert second > first
    assert (await provider.call("GET", "/certificate")).ok()["next_was_fetched"] is True
    # Otherwise once a minute is enough. A fetch that counts as later than this one is not overwritten.
    provider.people.change("update saml_configurations set metadata_fetched_at = metadata_fetched_at + interval '1 hour'")
    kept = (await provider.call("GET", "/certificate")).ok()["metadata_fetched_at"]
    assert await fetched() == kept


async def test_a_rollover_that_nobody_notices(provider: Providing) -> None:
    first = await provider.ready()
    ada = provider.people.add()
    browser = provider.signed_in(ada)
    upcoming = await provider.certificate("?activate=false")
    assert upcoming["is_active"] is False
    shown = (await provider.call("GET", "/certificate")).ok()
    assert set(shown) == {*_CERTIFICATE, "metadata_fetched_at", "next", "next_was_fetched"}
    assert (shown["public_key"], shown["next"]["id"], shown["next_was_fetched"]) == (first, upcoming["id"], False)
    keys = etree.fromstring((await provider.unlimited.get(_PUBLIC)).body).findall(".//ds:X509Certificate", NAMESPACES)
    # One service provider reads the metadata again, and the other was given both certificates beforehand: each knows these two.
    known = [f"-----BEGIN CERTIFICATE-----\n{one.text}\n-----END CERTIFICATE-----\n" for one in keys]
    assert len(known) == 2
    assert (await provider.call("GET", "/certificate")).ok()["next_was_fetched"] is True

    async def signer() -> int:
        got = sent(await browser.request("GET", asking()))
        for at, one in enumerate(known):
            try:
                verifier().verify(got.xml, x509_cert=one, id_attribute="ID")
            except signxml.exceptions.InvalidSignature:
                continue
            return at
        raise AssertionError("no certificate verifies")

    assert await signer() == 0
    # People who manage the service can test a sign-in with the next certificate.
    path = "/api/organizations/acme/services/app/saml/login?certificate=next"
    got = sent(await provider.unlimited.get(path, token=await provider.people.token(provider.owner)))
    verifier().verify(got.xml, x509_cert=known[1], id_attribute="ID")
    assert (await provider.unlimited.get(path, token=await provider.people.token(ada))).status == 403
    activated = (await provider.call("POST", "/certificate/activate")).ok()
    assert (activated["id"], activated["is_active"]) == (upcoming["id"], True)
    assert await signer() == 1
    assert (await provider.call("POST", "/certificate/activate")).status == 404
    assert (await provider.unlimited.get(path, token=await provider.people.token(provider.owner))).status == 404
    assert (await provider.call("GET", "/certificate")).ok()["next"] is None
    assert (await provider.call("GET", "/certificate")).ok()["last_signed_at"] is not None


async def test_exchanges_tell_times_ids_and_reasons_and_nothing_else(provider: Providing) -> None:
    await provider.ready()
    browser = provider.signed_in(provider.people.add("ada@example.org"))
    sent(await browser.request("GET", asking(authn_request(ID="_good"), "secret state")))
    wrong = asking(authn_request(ID="_wrong", AssertionConsumerServiceURL="https://evil.example/acs"))
    assert (await browser.request("GET", wrong)).status == 400
    failed, response, request = await provider.exchanges()
    assert (failed["kind"], failed["binding"], failed["succeeded"], failed["message_id"]) == ("authn_request", "redirect", False, "_wrong")
    assert "URL that is not configured" in failed["reason"]
    assert "acs_url" in failed["advice"]
    assert (request["kind"], request["message_id"], request["succeeded"], request["reason"]) == ("authn_request", "_good", True, "")
    assert (response["kind"], response["in_response_to"], response["status"]) == ("response", "_good", "Success")
    (kept,) = provider.people.rows("select id from saml_certificates")
    assert response["certificate_id"] == str(kept["id"])
    everything = str(provider.people.rows("select * from saml_exchanges"))
    for text in ("ada@example.org", "secret state", "evil.example"):
        assert text not in everything
    for _ in range(60):
        await browser.request("GET", f"{asking()}&x")
    assert len(await provider.exchanges()) == 50
    assert len(provider.people.rows("select * from saml_exchanges")) <= 52


async def test_owners_are_told_before_a_certificate_ends(provider: Providing) -> None:
    await provider.ready()
    saml = provider.postern.federation.saml

    async def told(days: float) -> list[str]:
        provider.people.change("delete from jobs")
        provider.people.change("update saml_certificates set valid_until = now() + %s * interval '1 day'", days)
        await saml.warn_of_ends(100)
        await saml.warn_of_ends(100)
        return [one["kind"] for one in provider.people.rows("select kind from jobs")]

    assert await told(61) == []
    assert len(await told(59)) == 1
    assert await told(58) == []
    assert len(await told(29)) == 1
    assert len(await told(6)) == 1
    assert await told(5) == []
    assert await told(-1) == []


async def test_the_watcher_looks_in_its_turn(provider: Providing) -> None:
    await provider.ready()
    provider.people.change("update saml_certificates set valid_until = now() + interval '5 days'")
    watcher = saml_certificate_watcher(provider.postern.federation.saml, spread=lambda: 0.0, interval=0.001)
    async with trio.open_nursery() as nursery:
        await nursery.start(watcher.run)
        with trio.fail_after(PATIENCE):
            while not provider.people.rows("select * from jobs"):
                await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
    assert await watcher.sweep() == 0
    assert len(provider.log.events("saml_certificates_end")) == 1

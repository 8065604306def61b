"""Rules of SAML that no single request shows."""

from base64 import b64encode
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from uuid import UUID

import pytest

from core.domain.claims import ClaimPlace, ClaimSource, ServiceClaim, ServiceFacts
from core.domain.errors import BadRequest
from core.domain.federation.oauth.authorization_steps import RequestingApplication, SignedInPerson
from core.domain.federation.oauth.authorizations import Registered
from core.domain.federation.saml.configurations import (
    CERTIFICATE_WARNINGS,
    MOST_CERTIFICATES,
    AcsEndpoint,
    Configuration,
    ConfigurationChange,
    Source,
    Understood,
    changed,
    configuration_changed,
    default_endpoint,
    filled,
)
from core.domain.federation.saml.messages import kept_id
from core.domain.federation.saml.sign_in import (
    PASSWORD_CLASS,
    Meeting,
    SamlSubject,
    attributes,
    has_allowed,
    require_askable,
    stated_class,
    told,
    unasked,
)
from core.domain.formats import Json
from core.domain.identifiers import ClientId, OrganizationId, ServiceId, SessionId, UserId
from core.domain.record.events import SYSTEM
from core.domain.saml import NameIdFormat, RequestDeclined, RequestedContext, SamlBinding, due_certificate_warning, three_years_after
from core.domain.services.services import Service, ServiceType
from core.frozen import replace
from tests.http.federation.providing import ACS, SLO, SP

NOW = datetime(2028, 2, 29, 12, tzinfo=UTC)
_UNCONFIGURED = Configuration(service=ServiceId(UUID(int=1)), created_at=NOW, updated_at=NOW)
_METADATA = Understood(
    entity_id=SP,
    acs_endpoints=(AcsEndpoint(0, ACS, is_default=True),),
    slo_url=SLO,
    slo_response_url=f"{SLO}/answer",
    slo_binding=SamlBinding.REDIRECT,
    signing_certificates=("a certificate",),
    encryption_certificate="another one",
)


_APPLICATION = RequestingApplication(
    service=ServiceId(UUID(int=1)),
    organization=OrganizationId(UUID(int=2)),
    organization_slug="acme",
    organization_name="Acme",
    organization_is_active=True,
    slug="app",
    name="App",
    registered=Registered(ClientId(str(UUID(int=5))), (), may_be_public=True, is_native=False, authenticates=False),
)
_ADA = SignedInPerson(
    user=UserId(UUID(int=3)),
    email="ada@example.org",
    session=SessionId(UUID(int=4)),
    proved_at=NOW,
    authenticated_by=("pwd",),
    has_second_factor=False,
    is_member=False,
    consented=("openid", "email"),
)
_MET = Meeting(
    application=_APPLICATION,
    configuration=replace(_UNCONFIGURED, entity_id=SP, acs_url=ACS),
    signer=None,
    next_signer=None,
    signed_in=_ADA,
    subject=SamlSubject(user=_ADA.user, email=_ADA.email, role=""),
    session_ends_at=NOW,
)


def test_who_has_allowed_it_and_who_belongs_there_by_their_own_act_are_not_asked() -> None:
    listed, own = replace(_ADA, is_member=True), replace(_ADA, is_member=True, is_own_member=True)
    assert _MET.subject is not None
    for allowed, expected in ((SP, True), ("https://other.example", False), (None, False)):
        subject = replace(_MET.subject, allowed=allowed)
        assert has_allowed(replace(_MET, subject=subject)) is expected
        assert has_allowed(replace(_MET, subject=subject, signed_in=listed)) is expected
        assert has_allowed(replace(_MET, subject=subject, signed_in=own))
    assert not has_allowed(replace(_MET, signed_in=None, subject=None))
    # A service provider without a name has no consent from anybody.
    assert not has_allowed(replace(_MET, configuration=_UNCONFIGURED))


def test_where_nobody_may_be_asked_it_says_the_same_of_nobody_and_of_whoever_would_be() -> None:
    request = unasked(_MET.configuration, None, next_certificate=False)
    passive = replace(request, passive=True)
    refusals = []
    for met in (_MET, replace(_MET, signed_in=None, subject=None)):
        require_askable(request, met)
        with pytest.raises(RequestDeclined) as refused:
            require_askable(passive, met)
        refusals.append((refused.value.status, refused.value.reason))
    assert refusals[0] == refusals[1]
    require_askable(passive, replace(_MET, signed_in=replace(_ADA, is_own_member=True)))


@pytest.mark.parametrize("source", Source)
def test_the_page_says_all_that_an_assertion_tells(source: Source) -> None:
    """What is known of the person by a source has a sentence: whoever adds one to accounts adds the other here."""
    assert _MET.subject is not None
    member = replace(_MET.subject, role="admin")
    met = replace(_MET, subject=member, configuration=replace(_MET.configuration, attribute_mapping={source.value: "a"}))
    said = {Source.ID: "openid", Source.EMAIL: "email", Source.ROLE: "organization", Source.GROUPS: "organization"}
    tells = attributes(met.configuration, _APPLICATION, member)
    about_organization = source in {Source.ORGANIZATION, Source.ORGANIZATION_NAME}
    assert bool(tells) == (source in said or about_organization)
    assert source not in said or said[source] in told(met)
    assert ("organization" in told(met)) == (said.get(source) == "organization")
    # Without a role there is nothing to tell of it.
    assert told(replace(met, subject=_MET.subject)) == ("openid", "email")


def test_certificates_end_on_the_same_day() -> None:
    assert three_years_after(NOW) == datetime(2031, 2, 28, 12, tzinfo=UTC)
    assert three_years_after(NOW - timedelta(days=1)) == datetime(2031, 2, 28, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("days", "warned", "due"), [(61, None, None), (60, None, 60), (29, 60, 30), (29, 30, None), (6, 30, 7), (-1, 7, None)]
)
def test_warnings_come_once_each(days: int, warned: int | None, due: int | None) -> None:
    assert due_certificate_warning(NOW + timedelta(days=days), warned, NOW, CERTIFICATE_WARNINGS) == due


def test_a_service_provider_has_a_few_certificates_at_most() -> None:
    before = Configuration(service=ServiceId(UUID(int=1)), created_at=NOW, updated_at=NOW)
    many = Understood(
        entity_id=SP,
        acs_endpoints=(),
        slo_url=None,
        slo_response_url=None,
        slo_binding=SamlBinding.POST,
        name_id_formats=(),
        signing_certificates=("x",) * (MOST_CERTIFICATES + 1),
        encryption_certificate=None,
        requests_signed=False,
        wants_assertions_signed=False,
    )
    with pytest.raises(BadRequest, match="signing certificates"):
        filled(before, many, NOW)


@pytest.mark.parametrize(
    ("before", "said", "certificates", "after"),
    [
        (False, False, ("x",), False),
        (False, True, ("x",), True),
        (False, True, (), False),
        (True, False, ("x",), True),
        (True, True, ("x",), True),
    ],
)
def test_metadata_turn_signed_requests_on_and_never_off(before: bool, said: bool, certificates: tuple[str, ...], after: bool) -> None:
    known = replace(_UNCONFIGURED, require_signed_requests=before, signing_certificates=("old",))
    understood = replace(_METADATA, requests_signed=said, signing_certificates=certificates)
    assert filled(known, understood, NOW).require_signed_requests is after


@pytest.mark.parametrize("said", [False, True])
def test_metadata_without_a_certificate_are_refused_where_requests_must_be_signed(said: bool) -> None:
    known = replace(_UNCONFIGURED, require_signed_requests=True, signing_certificates=("old",))
    with pytest.raises(BadRequest, match="metadata: there is no signing certificate, but require_signed_requests is true"):
        filled(known, replace(_METADATA, requests_signed=said, signing_certificates=()), NOW)


def test_another_service_provider_has_nothing_of_the_one_before() -> None:
    before = replace(filled(_UNCONFIGURED, _METADATA, NOW), enabled=True)
    other = ConfigurationChange(enabled=True, entity_id="https://other.example", acs_url="https://other.example/acs")
    after = changed(before, other, NOW)
    assert after == replace(_UNCONFIGURED, enabled=True, entity_id="https://other.example", acs_url="https://other.example/acs")
    # Addresses in the same change belong to the new service provider, even if they are equal to the old ones.
    after = changed(before, replace(other, slo_url=SLO), NOW)
    assert (after.slo_url, after.slo_response_url, after.slo_binding) == (SLO, None, None)


@pytest.mark.parametrize("enabled", [True, False])
def test_the_same_service_provider_keeps_what_it_has(enabled: bool) -> None:
    before = replace(filled(_UNCONFIGURED, _METADATA, NOW), enabled=True)
    assert changed(before, ConfigurationChange(enabled=enabled, entity_id=SP), NOW) == replace(before, enabled=enabled)


def test_the_first_service_provider_keeps_what_was_set_before() -> None:
    before = replace(_UNCONFIGURED, slo_url=SLO)
    assert changed(before, ConfigurationChange(enabled=True, entity_id=SP, acs_url=ACS), NOW).slo_url == SLO


def test_another_service_provider_needs_an_address_of_its_own() -> None:
    before = replace(filled(_UNCONFIGURED, _METADATA, NOW), enabled=True)
    with pytest.raises(BadRequest, match="acs_url: required when SAML is enabled"):
        changed(before, ConfigurationChange(enabled=True, entity_id="https://other.example"), NOW)
    # Nor does it help to change the entity id first and to enable it afterwards.
    disabled = changed(before, ConfigurationChange(enabled=False, entity_id="https://other.example"), NOW)
    assert disabled.acs_url is None
    with pytest.raises(BadRequest, match="acs_url: required when SAML is enabled"):
        changed(disabled, ConfigurationChange(enabled=True), NOW)
    # Nor to take the entity id back in between, as was possible without losing the rest.
    between = replace(before, entity_id=None, enabled=False)
    after = changed(between, ConfigurationChange(enabled=True, entity_id="https://other.example", acs_url=ACS), NOW)
    assert (after.signing_certificates, after.acs_endpoints) == ((), ())


_NO_CERTIFICATE = "require_signed_requests: no signing certificate of the service provider is known"


def test_signed_requests_are_not_required_without_a_certificate() -> None:
    with pytest.raises(BadRequest, match=_NO_CERTIFICATE):
        changed(_UNCONFIGURED, ConfigurationChange(enabled=False, require_signed_requests=True), NOW)
    strict = changed(filled(_UNCONFIGURED, _METADATA, NOW), ConfigurationChange(enabled=True, require_signed_requests=True), NOW)
    assert strict.require_signed_requests
    # A change of service provider removes the old one's certificate.
    other = ConfigurationChange(enabled=True, entity_id="https://other.example", acs_url=ACS)
    with pytest.raises(BadRequest, match=_NO_CERTIFICATE):
        changed(strict, other, NOW)
    assert not changed(strict, replace(other, require_signed_requests=False), NOW).require_signed_requests


def test_what_has_no_certificate_from_earlier_can_still_be_changed() -> None:
    kept = replace(_UNCONFIGURED, entity_id=SP, acs_url=ACS, enabled=True, require_signed_requests=True)
    assert not changed(kept, ConfigurationChange(enabled=False), NOW).enabled


@pytest.mark.parametrize(
    ("configured", "listed", "expected"),
    [
        (None, (NameIdFormat.PERSISTENT, NameIdFormat.EMAIL), NameIdFormat.PERSISTENT),
        (NameIdFormat.EMAIL.value, (NameIdFormat.PERSISTENT, NameIdFormat.EMAIL), NameIdFormat.EMAIL),
        ("emailAddress", (NameIdFormat.PERSISTENT, NameIdFormat.EMAIL), "emailAddress"),
        (NameIdFormat.EMAIL.value, ("urn:kerberos", NameIdFormat.PERSISTENT), NameIdFormat.PERSISTENT),
        (NameIdFormat.EMAIL.value, ("urn:kerberos",), NameIdFormat.EMAIL),
        (NameIdFormat.EMAIL.value, (), NameIdFormat.EMAIL),
        (None, (), None),
    ],
)
def test_metadata_name_people_as_before_if_they_can(configured: str | None, listed: tuple[str, ...], expected: str | None) -> None:
    understood = replace(_METADATA, name_id_formats=listed)
    assert filled(replace(_UNCONFIGURED, name_id_format=configured), understood, NOW).name_id_format == expected


def test_metadata_for_a_service_provider_in_use_keep_the_format_that_nobody_has_named() -> None:
    in_use = replace(_UNCONFIGURED, entity_id=SP, acs_url=ACS, enabled=True)
    listed = replace(_METADATA, name_id_formats=(NameIdFormat.TRANSIENT, NameIdFormat.EMAIL))
    assert filled(in_use, listed, NOW).format is in_use.format is NameIdFormat.EMAIL
    alone = replace(_METADATA, name_id_formats=(NameIdFormat.TRANSIENT,))
    assert filled(in_use, alone, NOW).format is NameIdFormat.TRANSIENT


def _in_pem(der: bytes) -> str:
    return f"-----BEGIN CERTIFICATE-----\n{b64encode(der).decode()}\n-----END CERTIFICATE-----\n"


def test_the_audit_log_tells_which_keys_and_addresses_were_replaced() -> None:
    service = Service(
        id=_UNCONFIGURED.service,
        organization=OrganizationId(UUID(int=2)),
        slug="app",
        name="App",
        service_type=ServiceType.WEB,
        client_id=ClientId(str(UUID(int=3))),
        created_at=NOW,
        updated_at=NOW,
    )
    known = replace(_METADATA, signing_certificates=(_in_pem(b"one"), _in_pem(b"two")), encryption_certificate=_in_pem(b"three"))
    before = filled(_UNCONFIGURED, known, NOW)
    other = replace(
        known,
        signing_certificates=(_in_pem(b"one"), _in_pem(b"four")),
        encryption_certificate=_in_pem(b"five"),
        slo_response_url=None,
        slo_binding=SamlBinding.POST,
    )
    event = configuration_changed(before, filled(before, other, NOW), service, SYSTEM)
    one, two, three, four, five = (sha256(der).hexdigest() for der in (b"one", b"two", b"three", b"four", b"five"))
    assert event.details == {
        "service_slug": "app",
        "enabled": False,
        "old_slo_response_url": f"{SLO}/answer",
        "new_slo_response_url": None,
        "old_slo_binding": "redirect",
        "new_slo_binding": "post",
        "old_signing_certificates_sha256": [one, two],
        "new_signing_certificates_sha256": [one, four],
        "old_encryption_certificate_sha256": three,
        "new_encryption_certificate_sha256": five,
    }


def test_a_class_that_nobody_knows_is_not_claimed() -> None:
    assert stated_class(["pwd"], RequestedContext(classes=("urn:example:retina",), comparison="exact")) == PASSWORD_CLASS


@pytest.mark.parametrize(
    ("said", "default"),
    [
        ((None, None), 0),
        ((False, None), 1),
        ((False, None, True), 2),
        ((None, False), 0),
        ((False, False), 0),
        ((True, True), 0),
    ],
)
def test_the_default_endpoint_is_one_that_does_not_say_it_is_none(said: tuple[bool | None, ...], default: int) -> None:
    endpoints = [AcsEndpoint(at, f"{ACS}/{at}", is_default=one) for at, one in enumerate(said)]
    assert default_endpoint(endpoints).index == default


def test_metadata_count_until_their_time_is_up() -> None:
    before = Configuration(service=ServiceId(UUID(int=1)), created_at=NOW, updated_at=NOW)
    for shift in (timedelta(0), timedelta(days=-1)):
        over = Understood(entity_id=SP, acs_endpoints=(AcsEndpoint(0, ACS),), valid_until=NOW + shift)
        with pytest.raises(BadRequest, match="metadata: validUntil has passed"):
            filled(before, over, NOW)
    good = Understood(entity_id=SP, acs_endpoints=(AcsEndpoint(0, ACS),), valid_until=NOW + timedelta(seconds=1))
    assert filled(before, good, NOW).entity_id == SP


@pytest.mark.parametrize(
    ("sent", "kept"),
    [("_0f-a.9", "_0f-a.9"), ("a" * 300, "a" * 256), ("", ""), ("ada@example.org Ada Lovelace", ""), ("a\n", ""), ("9a", "")],
)
def test_what_is_no_id_is_not_put_on_record(sent: str, kept: str) -> None:
    assert kept_id(sent) == kept


@pytest.mark.parametrize(
    ("value", "texts"),
    [("", None), (["", "x", ""], ["x"]), ([], None), ({"a": "b"}, None), (False, ["false"]), (0, ["0"]), (1.5, ["1.5"])],
)
def test_an_attribute_without_a_text_is_left_out(value: Json, texts: list[str] | None) -> None:
    assert _MET.subject is not None
    claim = ServiceClaim("of_service", ClaimSource.CONSTANT, value, (ClaimPlace.SAML,))
    subject = replace(_MET.subject, facts=ServiceFacts(claims=[claim]))
    assert attributes(replace(_UNCONFIGURED, attribute_mapping={}), _APPLICATION, subject).get("of_service") == texts

"""SAML's rules that no request shows by itself."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from core.domain.errors import BadRequest
from core.domain.federation.saml.certificates import due_warning, three_years_after
from core.domain.federation.saml.configurations import (
    MOST_CERTIFICATES,
    AcsEndpoint,
    Binding,
    Configuration,
    Understood,
    default_endpoint,
    filled,
)
from core.domain.federation.saml.messages import RequestedContext
from core.domain.federation.saml.sign_in import PASSWORD_CLASS, stated_class
from core.domain.identifiers import ServiceId
from tests.http.federation.providing import ACS, SP

NOW = datetime(2028, 2, 29, 12, tzinfo=UTC)


def test_certificates_end_on_the_same_day() -> None:
    assert three_years_after(NOW) == datetime(2031, 2, 28, 12, tzinfo=UTC)
    assert three_years_after(NOW - timedelta(days=1)) == datetime(2031, 2, 28, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("days", "warned", "due"), [(61, None, None), (60, None, 60), (29, 60, 30), (29, 30, None), (6, 30, 7), (-1, 7, None)]
)
def test_warnings_come_once_each(days: int, warned: int | None, due: int | None) -> None:
    assert due_warning(NOW + timedelta(days=days), warned, NOW) == due


def test_a_service_provider_has_a_few_certificates_at_most() -> None:
    before = Configuration(service=ServiceId(UUID(int=1)), created_at=NOW, updated_at=NOW)
    many = Understood(
        entity_id=SP,
        acs_endpoints=(),
        slo_url=None,
        slo_response_url=None,
        slo_binding=Binding.POST,
        name_id_formats=(),
        signing_certificates=("x",) * (MOST_CERTIFICATES + 1),
        encryption_certificate=None,
        requests_signed=False,
        wants_assertions_signed=False,
    )
    with pytest.raises(BadRequest, match="signing certificates"):
        filled(before, many, NOW)


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

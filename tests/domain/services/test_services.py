"""Services: the result of making one, and of changing one."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from core.domain.errors import BadRequest, ServiceLimitExceeded
from core.domain.identifiers import ClientId, OrganizationId, ServiceId
from core.domain.requests import UNCHANGED
from core.domain.services import service_claims, service_roles
from core.domain.services.api_keys import (
    MOST_CLIENT_SECRETS,
    require_confidential,
    require_no_client_secret,
    require_room_for_client_secret,
)
from core.domain.services.services import (
    NewService,
    Service,
    ServiceChange,
    ServiceType,
    ServiceUsage,
    changed,
    purge_job,
    service_usage,
)
from core.domain.tenancy.organizations import Organization, OrganizationStatus
from core.domain.tenancy.tiers import FREE, Tier
from core.frozen import replace

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
ID, ORGANIZATION, CLIENT = ServiceId(UUID(int=1)), OrganizationId(UUID(int=2)), ClientId(str(UUID(int=3)))


def service(service_type: ServiceType = ServiceType.WEB, **said: object) -> Service:
    wanted = replace(NewService(slug="app", name="App", service_type=service_type), **said)  # type: ignore[arg-type]  # of the test's own
    return wanted.service(ID, ORGANIZATION, CLIENT, NOW)


def test_who_keeps_a_secret_and_who_cannot() -> None:
    told = {one: one.is_confidential for one in ServiceType}
    assert told == {"web": True, "api": True, "mobile": False, "desktop": False, "metadata": False, "proxy": True}
    for kind in ServiceType:
        if kind.is_confidential:
            require_confidential(service(kind))
        else:
            with pytest.raises(BadRequest, match=kind):
                require_confidential(service(kind))


def test_there_is_room_for_two_secrets() -> None:
    for count in range(MOST_CLIENT_SECRETS):
        require_room_for_client_secret(count)
    with pytest.raises(BadRequest):
        require_room_for_client_secret(MOST_CLIENT_SECRETS)
    require_no_client_secret(0)
    with pytest.raises(BadRequest, match="service_type: "):
        require_no_client_secret(1)


@pytest.mark.parametrize(
    ("require", "most"),
    [
        (service_roles.require_room_for_permission, service_roles.MOST_PERMISSIONS),
        (service_claims.require_room, service_claims.MOST_CLAIMS),
        (service_roles.require_room_for_role, service_roles.MOST_ROLES),
    ],
)
def test_a_service_has_no_room_beyond_the_limit(require: Callable[[int], None], most: int) -> None:
    require(most - 1)
    with pytest.raises(BadRequest) as refusal:
        require(most)
    assert (refusal.value.words, refusal.value.values) == ("limit_reached", {"most": most})


def test_a_change_that_changes_nothing_leaves_no_trace() -> None:
    before = service(codehost_scopes=["a"], redirect_uris=["https://a.example/"])
    assert changed(before, ServiceChange(), LATER) is before
    assert changed(before, ServiceChange(name=" App ", codehost_scopes=["a"], redirect_uris=["https://a.example/"]), LATER) is before
    after = changed(before, ServiceChange(codehost_scopes=None), LATER)
    assert (after.codehost_scopes, after.redirect_uris, after.updated_at) == (None, ("https://a.example/",), LATER)


def test_what_is_said_is_told_from_what_is_not() -> None:
    assert ServiceChange().said == {}
    assert ServiceChange(device_activation_uri=None, name=UNCHANGED).said == {"device_activation_uri": None}


def test_order_matters_nothing_is_sorted() -> None:
    uris = ["https://b.example/", "https://a.example/"]
    assert service(redirect_uris=uris).redirect_uris == tuple(uris)
    assert service(redirect_uris=uris) != service(redirect_uris=sorted(uris))


def test_slugs_of_one_letter_and_of_fifty() -> None:
    for slug in ("a", "7", "a" * 50, "a-b", "a--b"):
        assert service(slug=slug).slug == slug


def test_the_organizations_own_number_counts_before_its_tiers() -> None:
    tier = Tier(FREE, "free", "Free", 3, 100, 0)
    organization = Organization(
        id=ORGANIZATION,
        slug="acme",
        name="Acme",
        status=OrganizationStatus.ACTIVE,
        tier=FREE,
        owner=None,
        created_at=NOW,
        updated_at=NOW,
    )
    assert service_usage(2, organization, tier) == ServiceUsage(2, 3, "Free")
    assert service_usage(2, replace(organization, max_services=0), tier) == ServiceUsage(2, 0, "Free")
    assert ServiceUsage(2, 3, "Free").with_one_more() == ServiceUsage(3, 3, "Free")
    ServiceUsage(2, 3, "Free").require_room()
    for current in (3, 4):
        with pytest.raises(ServiceLimitExceeded, match="3"):
            ServiceUsage(current, 3, "Free").require_room()


def test_the_job_that_takes_it_away_names_it() -> None:
    job = purge_job(ID)
    assert (job.kind, job.payload) == ("service.purge", {"service": str(ID)})


def test_an_application_behind_a_proxy_binds_no_tokens() -> None:
    with pytest.raises(BadRequest, match=r"^dpop_bound_access_tokens: "):
        changed(service(ServiceType.PROXY), ServiceChange(dpop_bound_access_tokens=True), LATER)
    assert changed(service(), ServiceChange(dpop_bound_access_tokens=True), LATER).dpop_bound_access_tokens

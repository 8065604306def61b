"""What a preset knows, where a token belongs, and what an owner says yes to."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import pytest

from core.domain.errors import BadRequest, Conflict
from core.domain.federation.provisioning.connections import (
    ATTRIBUTES_THERE,
    PRESETS_THERE,
    USUAL_MAPPING,
    MappedAttribute,
    ProvisioningConnection,
    ProvisioningDraft,
    ProvisioningPreset,
    ProvisioningSource,
    ProvisioningState,
    checked_draft,
    drafted,
    ending,
    halted,
    made_active,
    require_elsewhere,
    token_stays,
)
from core.domain.federation.provisioning.people import place_of
from core.domain.identifiers import OrganizationId, ProvisioningConnectionId, ServiceId, TeamId
from core.frozen import replace

NOW: Final = datetime(2026, 11, 29, tzinfo=UTC)
ONE: Final = UUID(int=1)
THERE: Final = "https://scim.example.org/v2"


def connection(**changes: Any) -> ProvisioningConnection:
    made = ProvisioningConnection(
        id=ProvisioningConnectionId(ONE),
        organization=OrganizationId(ONE),
        service=ServiceId(ONE),
        preset=ProvisioningPreset.GENERIC,
        base_url=THERE,
        token_set_at=NOW,
        mapping=USUAL_MAPPING,
        made_at=NOW,
        changed_at=NOW,
    )
    return replace(made, **changes)


def draft(**changes: Any) -> ProvisioningDraft:
    return replace(ProvisioningDraft(preset=ProvisioningPreset.GENERIC, base_url=THERE, token=None, mapping=None), **changes)


@pytest.mark.parametrize("preset", ProvisioningPreset)
def test_the_usual_mapping_is_enough_for_every_preset(preset: ProvisioningPreset) -> None:
    assert checked_draft(draft(preset=preset), None).mapping == USUAL_MAPPING
    assert set(PRESETS_THERE[preset].dialect.required) <= set(ATTRIBUTES_THERE)
    assert set(PRESETS_THERE[preset].dialect.rewrites) <= set(ATTRIBUTES_THERE)


@pytest.mark.parametrize("attribute", ATTRIBUTES_THERE)
def test_every_attribute_has_a_place(attribute: str) -> None:
    place_of(attribute)


@pytest.mark.parametrize(
    "attribute", ["password", "externalId", "active", "id", "groups", "roles", "emails", "meta.location", "userName; drop"]
)
def test_what_postern_writes_itself_and_what_opens_something_is_no_attribute_of_a_mapping(attribute: str) -> None:
    mapping = (*USUAL_MAPPING, MappedAttribute(attribute, ProvisioningSource.CONSTANT, "x"))
    with pytest.raises(BadRequest):
        checked_draft(draft(mapping=mapping), None)


@pytest.mark.parametrize("preset", ProvisioningPreset)
def test_what_a_system_needs_is_neither_missing_nor_left_out(preset: ProvisioningPreset) -> None:
    for attribute in PRESETS_THERE[preset].dialect.required:
        without = tuple(one for one in USUAL_MAPPING if one.attribute != attribute)
        for change in (draft(preset=preset, mapping=without), draft(preset=preset, attributes_left_out=(attribute,))):
            with pytest.raises(BadRequest) as refused:
                checked_draft(change, None)
            assert refused.value.words == "provisioning_needs"


@pytest.mark.parametrize(
    "changes",
    [
        {"preset": ProvisioningPreset.SLACK},
        {"base_url": "https://scim.example.com/v2"},
        {"token_set_at": NOW + timedelta(seconds=1)},
        {"token_set_at": None},
        {"mapping": USUAL_MAPPING[:1]},
        {"mapping": (MappedAttribute("userName", ProvisioningSource.CONSTANT, "x"),)},
        {"attributes_left_out": ("displayName",)},
        {"teams": (TeamId(ONE),)},
        {"teams": ()},
    ],
    ids=lambda one: next(iter(one)),
)
def test_the_digest_is_of_everything_that_an_owner_says_yes_to(changes: dict[str, Any]) -> None:
    assert connection(**changes).digest != connection().digest


@pytest.mark.parametrize(
    "changes", [{"state": ProvisioningState.ACTIVE}, {"stopped_why": "failing"}, {"changed_at": NOW + timedelta(1)}, {"failing_since": NOW}]
)
def test_the_digest_is_of_nothing_else(changes: dict[str, Any]) -> None:
    assert connection(**changes).digest == connection().digest


def test_a_change_makes_a_draft_of_what_is_active_and_the_same_again_does_not() -> None:
    active = made_active(connection(), NOW)
    later = NOW + timedelta(hours=1)
    assert drafted(active, checked_draft(draft(), active), later) == active
    changed = drafted(active, checked_draft(draft(base_url=f"{THERE}/other"), active), later)
    assert (changed.state, changed.token_set_at, changed.active_digest) == (ProvisioningState.DRAFT, NOW, active.digest)
    assert made_active(changed, later).active_digest == changed.digest
    elsewhere = drafted(active, checked_draft(draft(base_url="https://scim.example.com/v2"), active), later)
    assert elsewhere.token_set_at is None
    with pytest.raises(BadRequest):
        made_active(elsewhere, later)
    with_token = drafted(active, checked_draft(draft(token="another-token"), active), later)
    assert (with_token.state, with_token.token_set_at) == (ProvisioningState.DRAFT, later)


def test_everybody_ends_by_settings_that_an_owner_has_seen() -> None:
    active = made_active(connection(), NOW)
    assert ending(active, NOW).state is ProvisioningState.ENDING
    assert ending(halted(active, NOW), NOW).state is ProvisioningState.ENDING
    with pytest.raises(Conflict):
        ending(connection(), NOW)
    with pytest.raises(Conflict):
        ending(replace(active, base_url="https://scim.example.com/v2"), NOW)
    for act in (made_active, halted):
        with pytest.raises(Conflict):
            act(ending(active, NOW), NOW)


@pytest.mark.parametrize(
    ("other", "stays"),
    [
        ("https://scim.example.org/", True),
        ("https://scim.example.org:443/v2", True),
        ("https://scim.example.org:8443/v2", False),
        ("http://scim.example.org/v2", False),
        ("https://scim.example.org./v2", False),
        ("https://example.org/v2", False),
    ],
)
def test_a_token_belongs_to_scheme_host_and_port(other: str, stays: bool) -> None:
    try:
        assert token_stays(THERE, other) is stays
    except ValueError:
        assert not stays


def test_people_are_not_sent_where_they_come_from() -> None:
    own = "https://id.example.org"
    require_elsewhere(f"{own}/scim/v2", token_is_own=False, directories=[])
    require_elsewhere(THERE, token_is_own=False, directories=["ldap.example.org"])
    for same in (own, "https://ID.example.org:443"):
        with pytest.raises(Conflict):
            require_elsewhere(f"{same}/scim/v2", token_is_own=True, directories=[])
    for same in (THERE, "https://SCIM.example.org:8443/v2"):
        with pytest.raises(Conflict):
            require_elsewhere(same, token_is_own=False, directories=["scim.example.org"])

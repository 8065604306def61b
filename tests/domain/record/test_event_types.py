"""The catalogue of events: it has every event that is built, none that is not, and words for people."""

import ast
import re
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeGuard
from uuid import UUID

import pytest

from adapters.texts import shipped
from core.domain.identifiers import OrganizationId
from core.domain.languages import DEFAULT
from core.domain.record.event_types import (
    AUDIT_ACTIONS,
    EVENT_DATA,
    EVENT_TYPES,
    TEST_EVENT,
    WEBHOOK_EVENTS,
    Audience,
    UnknownEventType,
    event_type,
)
from core.domain.record.events import SYSTEM, Event, Target, TargetType
from tests.places import PAGES, ROOT

# The audit actions that the interface fixes, in its order.
FIXED: Final = (
    *("user.invited", "user.joined", "user.removed", "user.role_updated", "user.anonymized"),
    *("service.created", "service.updated", "service.deleted", "service.oauth_credentials.updated"),
    *("organization.updated", "organization.smtp.configured", "organization.smtp.removed"),
    *("plan.created", "plan.updated", "plan.deleted"),
    *("subscription.created", "subscription.updated", "subscription.canceled"),
    *("invitation.accepted", "invitation.declined", "invitation.expired", "invitation.revoked"),
    *("security.mfa.enabled", "security.mfa.disabled", "security.password.changed"),
    *("api_key.created", "api_key.deleted"),
    *("domain.set", "domain.verified", "domain.deleted", "branding.updated"),
)
NOUNS: Final = {one.name.partition(".")[0] for one in EVENT_TYPES}
LIKE_AN_EVENT: Final = re.compile(r"([a-z_]+)(\.[a-z_]+)+")
# Words of that form which are something else.
JOBS: Final = {"organization.purge", "profile_field.purge", "service.purge"}
# What a trace says of its process, in the words of OpenTelemetry.
OF_TRACES: Final = {"service.instance.id", "service.name", "service.version"}
# Keys of a mapper in a realm export of Keycloak.
OF_REALMS: Final = {"user.attribute"}
OTHERS: Final = JOBS | OF_TRACES | OF_REALMS
ACME: Final = OrganizationId(UUID(int=1))


@dataclass(frozen=True, slots=True)
class Names:
    """Of events, as the sources have them: by literal, with a file that has it; where one is put together; and what they are about."""

    written: dict[str, str]
    composed: list[str]
    targets: dict[str, str]


@cache
def names() -> Names:
    """Reading all sources takes seconds: once for all tests."""
    found = Names({}, [], {})
    for folder in ("core", "adapters", "actors", "entrypoints"):
        for file in (ROOT / folder).rglob("*.py"):
            if file.name != "event_types.py":
                place = str(file.relative_to(ROOT))
                for node in ast.walk(ast.parse(file.read_text())):
                    if isinstance(node, ast.Constant):
                        if reads_like_an_event(node.value):
                            found.written[node.value] = place
                    elif isinstance(node, ast.Call) and puts_a_name_together(node):
                        found.composed.append(f"{place}:{node.lineno}")
                    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Target":
                        kind = node.args[0]
                        found.targets[str(kind.value) if isinstance(kind, ast.Constant) else ast.unparse(kind)] = place
    return found


def reads_like_an_event(value: object) -> TypeGuard[str]:
    if not isinstance(value, str) or value.endswith((".html", ".txt")):
        return False
    found = LIKE_AN_EVENT.fullmatch(value)
    return found is not None and found[1] in NOUNS


def puts_a_name_together(call: ast.Call) -> bool:
    if not (isinstance(call.func, ast.Name) and call.func.id == "Event"):
        return False
    given = [*call.args[:1], *(word.value for word in call.keywords if word.arg == "name")]
    return any(isinstance(name, ast.JoinedStr | ast.BinOp) for name in given)


def test_every_event_that_is_built_is_in_the_catalogue() -> None:
    known = {one.name for one in EVENT_TYPES}
    # Keys of texts look alike.
    texts = set(shipped(DEFAULT, PAGES))
    # Columns of the console's lists name parts of a row, such as `invitation.email`, and records of the API parts of a thing. The export of
    # a person names columns of tables.
    places = ("/http/console/", "/http/routes/", "/privacy/parts.py")
    written = {name: file for name, file in names().written.items() if not any(place in file for place in places)}
    assert {name: file for name, file in written.items() if name not in known | OTHERS | texts} == {}


def test_everything_in_the_catalogue_is_built() -> None:
    assert {one.name for one in EVENT_TYPES} - names().written.keys() == set()


def test_the_name_of_an_event_is_never_put_together() -> None:
    """Or the two tests above would not see it."""
    assert names().composed == []


def test_what_events_are_about_is_what_the_log_can_be_asked_for() -> None:
    """Of every event in the catalogue, as the sources build them: by literal."""
    known = {one.value for one in TargetType}
    assert {kind: file for kind, file in names().targets.items() if kind not in known} == {}
    # Branding and a domain are the organization's: the interface names them all the same.
    assert known - names().targets.keys() == {"branding", "domain"}
    with pytest.raises(ValueError, match="target"):
        Target("users", "1")


def test_an_event_of_an_unknown_type_cannot_be_built() -> None:
    with pytest.raises(UnknownEventType, match=r"user\.vanished"):
        Event("user.vanished", SYSTEM, Target("user", "1"))
    with pytest.raises(UnknownEventType):
        event_type("")


def test_what_is_not_an_organizations_affair_stands_in_no_organizations_log() -> None:
    for one in EVENT_TYPES:
        if one.audience is Audience.ORGANIZATION:
            Event(one.name, SYSTEM, Target("user", "1"), ACME)
        else:
            with pytest.raises(ValueError, match="organization"):
                Event(one.name, SYSTEM, Target("user", "1"), ACME)
        Event(one.name, SYSTEM, Target("user", "1"))


def test_the_details_do_not_say_which_key_acted() -> None:
    for told in ({"details": {"acting_key": "x"}}, {"personal": {"acting_key": "x"}}):
        with pytest.raises(ValueError, match="acting_key"):
            Event("user.joined", SYSTEM, Target("user", "1"), ACME, **told)  # type: ignore[arg-type]  # one of the two


def test_the_audit_actions_begin_with_those_of_the_interface_in_its_order() -> None:
    assert tuple(one.name for one in AUDIT_ACTIONS[: len(FIXED)]) == FIXED


def test_webhooks_can_hear_of_all_that_the_interface_names() -> None:
    person = ("user.signup.success", "user.login.success", "user.login.failed", "user.logout", "user.mfa.enabled", "user.mfa.disabled")
    for name in (*FIXED, *person, "organization.owner.changed"):
        assert event_type(name).published, name


def test_a_try_that_failed_is_not_published_as_if_it_had_happened() -> None:
    assert Event("security.password.changed", SYSTEM, Target("user", "1")).published
    assert not Event("security.password.changed", SYSTEM, Target("user", "1"), success=False).published


def test_every_type_is_named_once_and_has_words_for_people() -> None:
    assert len({one.name for one in EVENT_TYPES}) == len(EVENT_TYPES)
    labels = {one.name: shipped(DEFAULT, PAGES)[f"console.event.{one.name}"] for one in EVENT_TYPES}
    of_the_log = [labels[one.name] for one in EVENT_TYPES if one.audited]
    assert len(set(of_the_log)) == len(of_the_log)
    for one in EVENT_TYPES:
        for words in (labels[one.name], one.category):
            assert re.fullmatch(r"[A-Z][A-Za-z\u2019:,() -]+[A-Za-z)]", words), words
        assert one.audited or one.published, one.name


def test_webhooks_are_told_of_what_organizations_may_know_and_of_nothing_else() -> None:
    assert all(one.published and one.audience is Audience.ORGANIZATION for one in WEBHOOK_EVENTS)
    # The test event goes to one webhook, and nobody subscribes to it.
    assert {one.name for one in EVENT_TYPES if one.published} - {one.name for one in WEBHOOK_EVENTS} == {TEST_EVENT}


def test_what_each_event_tells_is_described() -> None:
    assert set(EVENT_DATA) == {one.name for one in WEBHOOK_EVENTS} | {TEST_EVENT}
    for data in EVENT_DATA.values():
        assert re.fullmatch(r"[A-Z].+\.", data.description)

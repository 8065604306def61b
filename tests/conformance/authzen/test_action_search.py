"""The plan `authzen-pdp-action-search-test-plan`: what somebody may."""

from collections.abc import Mapping
from typing import Any

import httpx

from tests.conformance.authzen import transport
from tests.conformance.kit.deciding import (
    ACTIONS,
    MOMENT,
    READ,
    TIMES,
    UNKNOWN,
    USERS,
    WRITE,
    Decider,
    is_echoed,
    is_the_same,
    request_id,
)


def search(decider: Decider, **changed: Any) -> dict[str, Any]:
    """What may Alice do with the first record? None leaves a member out."""
    made = {"subject": decider.alice, "resource": decider.first, **changed}
    return {name: value for name, value in made.items() if value is not None}


def finds_both(decider: Decider, headers: Mapping[str, str] | None = None, **changed: Any) -> httpx.Response:
    return decider.finds(ACTIONS, search(decider, **changed), [READ, WRITE], **(headers or {}))


def is_refused(decider: Decider, **changed: Any) -> None:
    decider.is_refused(decider.ask(ACTIONS, search(decider, **changed)))


def test_authzen_pdp_action_search_valid_action_search_request_with_non_empty_results(decider: Decider) -> None:
    finds_both(decider)


def test_authzen_pdp_action_search_action_search_with_context(decider: Decider) -> None:
    finds_both(decider, context=MOMENT)


def test_authzen_pdp_action_search_unknown_entity_identifier(decider: Decider) -> None:
    decider.finds(ACTIONS, search(decider, subject={**USERS, "id": "nonexistent-user"}), [])


def test_authzen_pdp_action_search_x_request_id_echoed(decider: Decider) -> None:
    sent = request_id()
    is_echoed(finds_both(decider, {"x_request_id": sent}), sent)


def test_authzen_pdp_action_search_idempotency(decider: Decider) -> None:
    is_the_same([finds_both(decider) for _ in TIMES])


def test_authzen_pdp_action_search_reject_get_method(decider: Decider) -> None:
    transport.rejects_methods(decider, ACTIONS, search(decider), "GET")


def test_authzen_pdp_action_search_reject_put_method(decider: Decider) -> None:
    transport.rejects_methods(decider, ACTIONS, search(decider), "PUT")


def test_authzen_pdp_action_search_reject_top_level_array(decider: Decider) -> None:
    transport.rejects_an_array(decider, ACTIONS, search(decider))


def test_authzen_pdp_action_search_reject_non_json_content_type(decider: Decider) -> None:
    transport.rejects_plain_text(decider, ACTIONS, search(decider))


def test_authzen_pdp_action_search_accept_content_type_with_charset(decider: Decider) -> None:
    finds_both(decider, {"content_type": "application/json; charset=utf-8"})


def test_authzen_pdp_action_search_reject_malformed_json(decider: Decider) -> None:
    transport.rejects_malformed_json(decider, ACTIONS)


def test_authzen_pdp_action_search_reject_empty_body(decider: Decider) -> None:
    transport.rejects_an_empty_body(decider, ACTIONS)


def test_authzen_pdp_action_search_missing_resource(decider: Decider) -> None:
    is_refused(decider, resource=None)


def test_authzen_pdp_action_search_resource_missing_id(decider: Decider) -> None:
    is_refused(decider, resource={"type": "service"})


def test_authzen_pdp_action_search_resource_missing_type(decider: Decider) -> None:
    is_refused(decider, resource={"id": "records"})


def test_authzen_pdp_action_search_missing_subject(decider: Decider) -> None:
    is_refused(decider, subject=None)


def test_authzen_pdp_action_search_subject_missing_id(decider: Decider) -> None:
    is_refused(decider, subject=USERS)


def test_authzen_pdp_action_search_subject_missing_type(decider: Decider) -> None:
    is_refused(decider, subject={"id": decider.alice["id"]})


def test_authzen_pdp_action_search_subject_is_string(decider: Decider) -> None:
    is_refused(decider, subject="alice")


def test_authzen_pdp_action_search_unknown_top_level_fields_ignored(decider: Decider) -> None:
    finds_both(decider, **UNKNOWN)


def test_authzen_pdp_action_search_extra_action_ignored(decider: Decider) -> None:
    finds_both(decider, action=READ)

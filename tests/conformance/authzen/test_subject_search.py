"""The plan `authzen-pdp-subject-search-test-plan`: who may."""

from collections.abc import Mapping
from typing import Any

import httpx

from tests.conformance.authzen import transport
from tests.conformance.kit.deciding import MOMENT, READ, SUBJECTS, TIMES, UNKNOWN, USERS, Decider, is_echoed, is_the_same, request_id


def search(decider: Decider, **changed: Any) -> dict[str, Any]:
    """Who may read the first record? None leaves a member out."""
    made = {"subject": USERS, "action": READ, "resource": decider.first, **changed}
    return {name: value for name, value in made.items() if value is not None}


def finds_both(decider: Decider, headers: Mapping[str, str] | None = None, **changed: Any) -> httpx.Response:
    return decider.finds(SUBJECTS, search(decider, **changed), [decider.alice, decider.bob], **(headers or {}))


def is_refused(decider: Decider, **changed: Any) -> None:
    decider.is_refused(decider.ask(SUBJECTS, search(decider, **changed)))


def test_authzen_pdp_subject_search_valid_subject_search_request_with_non_empty_results(decider: Decider) -> None:
    finds_both(decider)


def test_authzen_pdp_subject_search_subject_search_with_context(decider: Decider) -> None:
    finds_both(decider, context=MOMENT)


def test_authzen_pdp_subject_search_subject_search_with_subject_id_omitted(decider: Decider) -> None:
    finds_both(decider)


def test_authzen_pdp_subject_search_request_with_page_limit(decider: Decider) -> None:
    decider.finds_in_pages(SUBJECTS, search(decider, page={"limit": 1}), [decider.alice, decider.bob])


def test_authzen_pdp_subject_search_unknown_entity_type(decider: Decider) -> None:
    decider.finds(SUBJECTS, search(decider, subject={"type": "spaceship"}), [])


def test_authzen_pdp_subject_search_x_request_id_echoed(decider: Decider) -> None:
    sent = request_id()
    is_echoed(finds_both(decider, {"x_request_id": sent}), sent)


def test_authzen_pdp_subject_search_idempotency(decider: Decider) -> None:
    is_the_same([finds_both(decider) for _ in TIMES])


def test_authzen_pdp_subject_search_reject_get_method(decider: Decider) -> None:
    transport.rejects_methods(decider, SUBJECTS, search(decider), "GET")


def test_authzen_pdp_subject_search_reject_put_method(decider: Decider) -> None:
    transport.rejects_methods(decider, SUBJECTS, search(decider), "PUT")


def test_authzen_pdp_subject_search_reject_top_level_array(decider: Decider) -> None:
    transport.rejects_an_array(decider, SUBJECTS, search(decider))


def test_authzen_pdp_subject_search_reject_non_json_content_type(decider: Decider) -> None:
    transport.rejects_plain_text(decider, SUBJECTS, search(decider))


def test_authzen_pdp_subject_search_accept_content_type_with_charset(decider: Decider) -> None:
    finds_both(decider, {"content_type": "application/json; charset=utf-8"})


def test_authzen_pdp_subject_search_reject_malformed_json(decider: Decider) -> None:
    transport.rejects_malformed_json(decider, SUBJECTS)


def test_authzen_pdp_subject_search_reject_empty_body(decider: Decider) -> None:
    transport.rejects_an_empty_body(decider, SUBJECTS)


def test_authzen_pdp_subject_search_missing_action(decider: Decider) -> None:
    is_refused(decider, action=None)


def test_authzen_pdp_subject_search_action_missing_name(decider: Decider) -> None:
    is_refused(decider, action={})


def test_authzen_pdp_subject_search_action_is_string(decider: Decider) -> None:
    is_refused(decider, action="read")


def test_authzen_pdp_subject_search_missing_resource(decider: Decider) -> None:
    is_refused(decider, resource=None)


def test_authzen_pdp_subject_search_resource_missing_id(decider: Decider) -> None:
    is_refused(decider, resource={"type": "service"})


def test_authzen_pdp_subject_search_resource_missing_type(decider: Decider) -> None:
    is_refused(decider, resource={"id": "records"})


def test_authzen_pdp_subject_search_subject_missing_type(decider: Decider) -> None:
    is_refused(decider, subject={})


def test_authzen_pdp_subject_search_unknown_top_level_fields_ignored(decider: Decider) -> None:
    finds_both(decider, **UNKNOWN)


def test_authzen_pdp_subject_search_unknown_page_fields_ignored(decider: Decider) -> None:
    finds_both(decider, page={"limit": 10, "customAttr": "ignored"})


def test_authzen_pdp_subject_search_extra_subject_id_ignored(decider: Decider) -> None:
    finds_both(decider, subject={**USERS, "id": "ignored-stray-id"})

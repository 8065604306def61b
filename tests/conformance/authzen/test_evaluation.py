"""The plan `authzen-pdp-evaluation-test-plan`: one question."""

from collections.abc import Mapping
from typing import Any

import httpx

from tests.conformance.authzen import transport
from tests.conformance.kit.deciding import MOMENT, ONE, READ, TIMES, UNKNOWN, WRITE, Decider, is_echoed, request_id


def question(decider: Decider, **changed: Any) -> dict[str, Any]:
    """May Alice read the first record? None leaves a member out."""
    made = {"subject": decider.alice, "action": READ, "resource": decider.first, **changed}
    return {name: value for name, value in made.items() if value is not None}


def without(member: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in member.items() if key != name}


def test_authzen_pdp_evaluation_fixture_request_permit_decision(decider: Decider) -> None:
    decider.decides(question(decider), True)


def test_authzen_pdp_evaluation_fixture_request_deny_decision(decider: Decider) -> None:
    decider.decides(question(decider, subject=decider.bob, action=WRITE), False)


def test_authzen_pdp_evaluation_request_with_optional_context(decider: Decider) -> None:
    decider.decides(question(decider, context=MOMENT), True)


def test_authzen_pdp_evaluation_request_with_additional_properties(decider: Decider) -> None:
    subject = {**decider.alice, "properties": {"department": "Sales", "role": "manager"}}
    action = {**READ, "properties": {"method": "GET"}}
    resource = {**decider.first, "properties": {"status": "active", "owner": "bob"}}
    decider.decides(question(decider, subject=subject, action=action, resource=resource), True)


def test_authzen_pdp_evaluation_x_request_id_echoed(decider: Decider) -> None:
    sent = request_id()
    is_echoed(decider.decides(question(decider), True, x_request_id=sent), sent)


def test_authzen_pdp_evaluation_idempotency(decider: Decider) -> None:
    assert [decider.decision_of(decider.ask(ONE, question(decider))) for _ in TIMES] == [True] * len(TIMES)


def test_authzen_pdp_evaluation_missing_subject(decider: Decider) -> None:
    decider.is_refused(decider.ask(ONE, question(decider, subject=None)))


def test_authzen_pdp_evaluation_missing_action(decider: Decider) -> None:
    decider.is_refused(decider.ask(ONE, question(decider, action=None)))


def test_authzen_pdp_evaluation_missing_resource(decider: Decider) -> None:
    decider.is_refused(decider.ask(ONE, question(decider, resource=None)))


def test_authzen_pdp_evaluation_subject_missing_type(decider: Decider) -> None:
    decider.is_refused(decider.ask(ONE, question(decider, subject=without(decider.alice, "type"))))


def test_authzen_pdp_evaluation_subject_missing_id(decider: Decider) -> None:
    decider.is_refused(decider.ask(ONE, question(decider, subject=without(decider.alice, "id"))))


def test_authzen_pdp_evaluation_action_missing_name(decider: Decider) -> None:
    decider.is_refused(decider.ask(ONE, question(decider, action={})))


def test_authzen_pdp_evaluation_resource_missing_type(decider: Decider) -> None:
    decider.is_refused(decider.ask(ONE, question(decider, resource=without(decider.first, "type"))))


def test_authzen_pdp_evaluation_resource_missing_id(decider: Decider) -> None:
    decider.is_refused(decider.ask(ONE, question(decider, resource=without(decider.first, "id"))))


def test_authzen_pdp_evaluation_subject_is_string(decider: Decider) -> None:
    decider.is_refused(decider.ask(ONE, question(decider, subject="alice")))


def test_authzen_pdp_evaluation_action_name_is_number(decider: Decider) -> None:
    decider.is_refused(decider.ask(ONE, question(decider, action={"name": 123})))


def test_authzen_pdp_evaluation_unknown_top_level_fields_ignored(decider: Decider) -> None:
    decider.decides(question(decider, **UNKNOWN), True)


def test_authzen_pdp_evaluation_unknown_subject_fields_ignored(decider: Decider) -> None:
    subject = {**decider.alice, "customAttr": "ignored", "anotherUnknown": {"k": "v"}}
    decider.decides(question(decider, subject=subject), True)


def test_authzen_pdp_evaluation_unknown_resource_fields_ignored(decider: Decider) -> None:
    resource = {**decider.first, "customAttr": "ignored", "anotherUnknown": [1, 2, 3]}
    decider.decides(question(decider, resource=resource), True)


def test_authzen_pdp_evaluation_unknown_action_fields_ignored(decider: Decider) -> None:
    decider.decides(question(decider, action={**READ, "customAttr": "ignored"}), True)


def test_authzen_pdp_evaluation_reject_get_method(decider: Decider) -> None:
    transport.rejects_methods(decider, ONE, question(decider), "GET")


def test_authzen_pdp_evaluation_reject_put_method(decider: Decider) -> None:
    transport.rejects_methods(decider, ONE, question(decider), "PUT")


def test_authzen_pdp_evaluation_reject_top_level_array(decider: Decider) -> None:
    transport.rejects_an_array(decider, ONE, question(decider))


def test_authzen_pdp_evaluation_reject_non_json_content_type(decider: Decider) -> None:
    transport.rejects_plain_text(decider, ONE, question(decider))


def test_authzen_pdp_evaluation_accept_content_type_with_charset(decider: Decider) -> None:
    decider.decides(question(decider), True, content_type="application/json; charset=utf-8")


def test_authzen_pdp_evaluation_reject_malformed_json(decider: Decider) -> None:
    transport.rejects_malformed_json(decider, ONE)


def test_authzen_pdp_evaluation_reject_empty_body(decider: Decider) -> None:
    transport.rejects_an_empty_body(decider, ONE)


def test_authzen_pdp_evaluation_missing_credentials_returns_401(decider: Decider) -> None:
    is_not_let_in(decider, decider.ask(ONE, question(decider), key=None))


def test_authzen_pdp_evaluation_invalid_credentials_returns_401(decider: Decider) -> None:
    is_not_let_in(decider, decider.ask(ONE, question(decider), key="invalid-bogus-credential"))


def is_not_let_in(decider: Decider, answer: httpx.Response) -> None:
    assert answer.status_code == 401
    decider.outcome.should("WWW-Authenticate" in answer.headers, "no WWW-Authenticate")

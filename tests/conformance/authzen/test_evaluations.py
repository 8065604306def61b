"""The plan `authzen-pdp-evaluations-test-plan`: several questions at once."""

from collections.abc import Mapping
from typing import Any

from tests.conformance.authzen import transport
from tests.conformance.kit.deciding import (
    MOMENT,
    READ,
    SEVERAL,
    TIMES,
    UNKNOWN,
    WRITE,
    Decider,
    is_echoed,
    is_the_same,
    request_id,
)


def both_records(decider: Decider, **more: Any) -> dict[str, Any]:
    """May Alice read each of the records?"""
    return {"subject": decider.alice, "action": READ, "evaluations": [{"resource": decider.first}, {"resource": decider.second}], **more}


def one_record(decider: Decider, **more: Any) -> dict[str, Any]:
    return {**both_records(decider), "evaluations": [{"resource": decider.first}], **more}


def of_bob(decider: Decider, *actions: Mapping[str, str], **more: Any) -> dict[str, Any]:
    """May Bob do these with the first record?"""
    parts = [{"action": action} for action in actions or (READ, WRITE)]
    return {"subject": decider.bob, "resource": decider.first, "evaluations": parts, **more}


def semantic(word: str) -> dict[str, Any]:
    return {"options": {"evaluations_semantic": word}}


def test_authzen_pdp_evaluations_batch_request_with_evaluations_array(decider: Decider) -> None:
    decider.decides_all(both_records(decider), True, True)


def test_authzen_pdp_evaluations_batch_with_fixture_decisions_validated(decider: Decider) -> None:
    decider.decides_all(of_bob(decider), True, False)


def test_authzen_pdp_evaluations_batch_with_fully_specified_evaluations(decider: Decider) -> None:
    first = {"subject": decider.alice, "action": READ, "resource": decider.first}
    second = {"subject": decider.bob, "action": WRITE, "resource": decider.first}
    decider.decides_all({"evaluations": [first, second]}, True, False)


def test_authzen_pdp_evaluations_batch_with_context_inheritance(decider: Decider) -> None:
    second = {"resource": decider.second, "context": {"time": "2025-06-27T19:00-07:00", "source": "batch-override"}}
    context = {"time": MOMENT["time"]}
    decider.decides_all(both_records(decider, context=context, evaluations=[{"resource": decider.first}, second]), True, True)


def test_authzen_pdp_evaluations_evaluation_level_errors(decider: Decider) -> None:
    decider.decides_all(both_records(decider, evaluations=[{"resource": decider.first}, {}]), True, False)


def test_authzen_pdp_evaluations_default_semantic_is_execute_all(decider: Decider) -> None:
    decider.decides_all(of_bob(decider), True, False)


def test_authzen_pdp_evaluations_execute_all_explicit(decider: Decider) -> None:
    decider.decides_all(of_bob(decider, **semantic("execute_all")), True, False)


def test_authzen_pdp_evaluations_deny_on_first_deny(decider: Decider) -> None:
    decider.decides_all(of_bob(decider, READ, WRITE, READ, **semantic("deny_on_first_deny")), True, False)


def test_authzen_pdp_evaluations_permit_on_first_permit(decider: Decider) -> None:
    decider.decides_all(of_bob(decider, WRITE, READ, WRITE, **semantic("permit_on_first_permit")), False, True)


def test_authzen_pdp_evaluations_unknown_semantic_value(decider: Decider) -> None:
    decider.is_refused(decider.ask(SEVERAL, one_record(decider, **semantic("bogus_value"))))


def test_authzen_pdp_evaluations_per_eval_overrides_default(decider: Decider) -> None:
    decider.decides_all({**of_bob(decider), "action": WRITE, "evaluations": [{"action": READ}, {}]}, True, False)


def test_authzen_pdp_evaluations_missing_subject_returns_decision_false(decider: Decider) -> None:
    decider.decides_all({"action": READ, "evaluations": [{"resource": decider.first}]}, False)


def is_one_decision(decider: Decider, **more: Any) -> None:
    """Without questions, the request is one question and the answer one decision."""
    answer = decider.ask(SEVERAL, {"subject": decider.alice, "action": READ, "resource": decider.first, **more})
    assert decider.decision_of(answer) is True
    assert "evaluations" not in answer.json()


def test_authzen_pdp_evaluations_missing_evaluations_array_backward_compat(decider: Decider) -> None:
    is_one_decision(decider)


def test_authzen_pdp_evaluations_empty_evaluations_array_backward_compat(decider: Decider) -> None:
    is_one_decision(decider, evaluations=[])


def test_authzen_pdp_evaluations_unknown_top_level_fields_ignored(decider: Decider) -> None:
    decider.decides_all(of_bob(decider, **UNKNOWN), True, False)


def test_authzen_pdp_evaluations_x_request_id_echoed(decider: Decider) -> None:
    sent = request_id()
    is_echoed(decider.decides_all(both_records(decider), True, True, x_request_id=sent), sent)


def test_authzen_pdp_evaluations_idempotency(decider: Decider) -> None:
    is_the_same([decider.decides_all(both_records(decider), True, True) for _ in TIMES])


def test_authzen_pdp_evaluations_reject_get_method(decider: Decider) -> None:
    transport.rejects_methods(decider, SEVERAL, one_record(decider), "GET")


def test_authzen_pdp_evaluations_reject_put_method(decider: Decider) -> None:
    transport.rejects_methods(decider, SEVERAL, one_record(decider), "PUT")


def test_authzen_pdp_evaluations_reject_top_level_array(decider: Decider) -> None:
    transport.rejects_an_array(decider, SEVERAL, one_record(decider))


def test_authzen_pdp_evaluations_reject_non_json_content_type(decider: Decider) -> None:
    transport.rejects_plain_text(decider, SEVERAL, one_record(decider))


def test_authzen_pdp_evaluations_accept_content_type_with_charset(decider: Decider) -> None:
    decider.decides_all(both_records(decider), True, True, content_type="application/json; charset=utf-8")


def test_authzen_pdp_evaluations_reject_malformed_json(decider: Decider) -> None:
    transport.rejects_malformed_json(decider, SEVERAL)


def test_authzen_pdp_evaluations_reject_empty_body(decider: Decider) -> None:
    transport.rejects_an_empty_body(decider, SEVERAL)

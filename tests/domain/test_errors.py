"""Refusals carry a code and a text that may be shown; what is private stays apart."""

import pytest

from core.domain import errors
from core.domain.errors import BadRequest, NotFound, found


def _family(kind: type[errors.Refusal]) -> list[type[errors.Refusal]]:
    return [kind, *(deeper for child in kind.__subclasses__() for deeper in _family(child))]


def test_every_refusal_that_can_be_raised_has_a_code_and_a_text() -> None:
    leaves = [kind for kind in _family(errors.Refusal) if kind not in {errors.Refusal, errors.RetryLater}]
    assert all(kind.code.isupper() and kind.text for kind in leaves)


def test_the_private_detail_is_not_the_message() -> None:
    refusal = errors.NotFound(detail="user 7 is in another organization")
    assert (refusal.message, str(refusal)) == ("Not found", "Not found")
    assert refusal.detail == "user 7 is in another organization"


def test_a_message_replaces_the_text() -> None:
    assert errors.BadRequest("email: not an address").message == "email: not an address"


def test_a_refusal_for_now_says_when_to_come_back() -> None:
    assert errors.Overloaded(retry_after=1.5).retry_after == 1.5


def test_a_wrong_method_names_the_right_ones() -> None:
    assert errors.MethodNotAllowed(("GET", "HEAD")).allowed == ("GET", "HEAD")


def test_a_refusal_names_its_words_for_people_by_its_code_or_by_its_cause() -> None:
    assert errors.Conflict("slug: taken").words == "conflict"
    refusal = errors.BadRequest("At most 3", words="too_many", values={"most": 3})
    assert (refusal.words, refusal.values) == ("too_many", {"most": 3})


def test_what_was_found_comes_back_even_if_it_is_empty() -> None:
    assert found("", "There is no such team") == ""


def test_what_is_not_there_is_refused_in_the_words_of_its_noun() -> None:
    with pytest.raises(NotFound) as missing:
        found(None, "There is no such account", words="account_unknown")
    assert (missing.value.message, missing.value.words) == ("There is no such account", "account_unknown")
    with pytest.raises(BadRequest) as unfit:
        found(None, "role: there is no such role", refusal=BadRequest)
    assert (unfit.value.message, unfit.value.words) == ("role: there is no such role", "bad_request")

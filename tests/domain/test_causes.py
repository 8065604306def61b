from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
import structlog

from adapters.system import SystemIds
from core.domain.causes import begin, caused_by, causing_request, end, given_tail, moment_of, named_by_client, request_text

ONE, OTHER = SystemIds().new(), SystemIds().new()


def test_what_happens_in_a_request_follows_from_it() -> None:
    assert causing_request() is None
    begun = begin(str(ONE))
    assert causing_request() == ONE
    assert request_text() == str(ONE)
    assert structlog.contextvars.merge_contextvars(None, "info", {}) == {"request_id": str(ONE)}
    end(begun)
    assert causing_request() is None


def test_work_that_a_request_left_behind_follows_from_it() -> None:
    with caused_by(ONE):
        with pytest.raises(ZeroDivisionError):
            _fail_because_of(OTHER)
        assert causing_request() == ONE
        with caused_by(None):
            assert causing_request() == ONE
    assert causing_request() is None


def _fail_because_of(request: UUID) -> None:
    with caused_by(request):
        assert causing_request() == request
        raise ZeroDivisionError


@pytest.mark.parametrize("given", ["a", "trace-7", "'; drop table jobs; --", "é\x00", "x" * 128])
def test_a_given_text_becomes_an_id_with_the_moment_of_its_arrival(given: str) -> None:
    fresh = SystemIds().new()
    named = UUID(named_by_client(fresh, given))
    assert (named.version, str(named)) == (8, named_by_client(fresh, given)), "a canonical UUIDv8"
    assert moment_of(named) == moment_of(fresh)
    assert str(named).endswith(given_tail(given))


def test_texts_have_ids_of_their_own_at_the_same_moment() -> None:
    named = {named_by_client(ONE, f"trace-{number}") for number in range(1000)}
    assert len(named) == 1000
    assert named_by_client(ONE, "trace-1") in named


def test_an_id_tells_its_moment() -> None:
    now = datetime.now(UTC)
    moment = moment_of(SystemIds().new())
    assert moment is not None
    assert abs(moment - now) < timedelta(minutes=5)


def test_an_id_that_we_do_not_make_tells_no_moment() -> None:
    assert moment_of(uuid4()) is None
    assert moment_of(UUID(int=0)) is None
    assert moment_of(UUID("ffffffff-ffff-7fff-bfff-ffffffffffff")) is None

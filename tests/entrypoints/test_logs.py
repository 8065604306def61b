"""Logs: structured, and without secrets."""

import io
import json
import logging
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final

import psycopg
import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.domain.secrets import Password, Token
from entrypoints import logs
from ports.record import SpanKind, Trace, TraceSpan

SECRET = "hunter2-and-more"


@pytest.fixture
def out() -> io.StringIO:
    return io.StringIO()


@pytest.fixture(autouse=True)
def _undone() -> Iterator[None]:
    """`logs.configure` changes the whole process: put back what the other tests rely on."""
    root = logging.getLogger()
    before = (root.handlers[:], root.level)
    yield
    root.handlers[:], level = before
    root.setLevel(level)
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()


def _lines(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_lines_within_a_span_lead_to_its_trace(out: io.StringIO) -> None:
    logs.configure("info", "json", out)
    with TraceSpan(Trace("0af7651916cd43dd8448eb211c80319c", "b7ad6b716920", lambda: 1), SpanKind.SERVER, "GET", (), ""):
        structlog.get_logger().info("within")
        logs.RequestLog().tell({"method": "GET"}, is_probe=False)
    structlog.get_logger().info("after")
    logs.RequestLog().tell({"method": "GET"}, is_probe=False)
    ids = {"trace_id": "0af7651916cd43dd8448eb211c80319c", "span_id": "b7ad6b7169200001"}
    within, request, *others = _lines(out)
    assert ids.items() <= within.items()
    assert ids.items() <= request.items()
    assert all("trace_id" not in line and "span_id" not in line for line in others)


def test_a_line_is_json_when_nobody_watches(out: io.StringIO) -> None:
    logs.configure("info", "auto", out)
    with structlog.contextvars.bound_contextvars(request_id="r1"):
        structlog.get_logger().info("job_done", kind="mail", seconds=0.5)
    (line,) = _lines(out)
    assert line["timestamp"].endswith("Z")
    assert list(line)[:3] == ["timestamp", "level", "event"]
    assert {**line, "timestamp": ""} == {
        "timestamp": "",
        "level": "info",
        "event": "job_done",
        "kind": "mail",
        "seconds": 0.5,
        "request_id": "r1",
    }


def test_a_line_is_readable_on_a_terminal(out: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(out, "isatty", lambda: True)
    logs.configure("info", "auto", out)
    structlog.get_logger().warning("job_died", kind="mail", error="two words", attempts=3)
    assert out.getvalue().endswith(" warning job_died kind=mail error='two words' attempts=3\n")


def test_a_line_stays_one_line(out: io.StringIO) -> None:
    logs.configure("info", "text", out)
    structlog.get_logger().info("seen", agent="evil\n12:00:00 info forged")
    assert len(out.getvalue().splitlines()) == 1


def test_what_is_below_the_level_is_not_logged(out: io.StringIO) -> None:
    logs.configure("warning", "json", out)
    structlog.get_logger().info("quiet")
    structlog.get_logger().warning("loud")
    assert [line["event"] for line in _lines(out)] == ["loud"]


def test_what_libraries_log_joins_ours(out: io.StringIO) -> None:
    logs.configure("info", "json", out)
    logging.getLogger("hypercorn.error").warning("closed %s", "x")
    logging.getLogger("hypercorn.error").warning("odd %d", "x")
    logging.getLogger("hypercorn.access").info("not ours to tell")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    first, odd, warned = _lines(out)
    assert (first["event"], first["library"], first["message"]) == ("library_message", "hypercorn.error", "closed x")
    assert odd["message"] == "odd %d"
    assert warned["library"] == "py.warnings"


@pytest.mark.parametrize("form", ["json", "text"])
def test_secrets_do_not_leave_by_this_door(form: str, out: io.StringIO) -> None:
    logs.configure("debug", form, out)
    structlog.get_logger().error(
        "provoked",
        password=SECRET,
        Authorization=f"Bearer {SECRET}",
        access_token=SECRET,
        given=Password(SECRET),
        nested={"client_secret": SECRET, "more": [Token(SECRET), {"code": SECRET}]},
        pair=(Password(SECRET), 1),
    )
    assert SECRET not in out.getvalue()
    assert logs.MASK in out.getvalue()


def test_ordinary_fields_are_left_alone(out: io.StringIO) -> None:
    logs.configure("info", "json", out)
    structlog.get_logger().info("fine", status_code=200, tokens=3, code=None, token=True, nothing=None)
    (line,) = _lines(out)
    assert {name: line[name] for name in ("status_code", "tokens", "code", "token", "nothing")} == {
        "status_code": 200,
        "tokens": 3,
        "code": None,
        "token": True,
        "nothing": None,
    }


def test_a_whole_e_mail_address_is_not_logged(out: io.StringIO) -> None:
    logs.configure("info", "json", out)
    error = ValueError("Key (email)=(first.last@sub.example.com) already exists")
    structlog.get_logger().error("provoked", exc_info=error, detail="to <first.last@example.com>")
    assert "first.last" not in out.getvalue()
    assert "***@example.com" in out.getvalue()
    assert "***@sub.example.com" in out.getvalue()


def _fail(password: str) -> None:
    raise RuntimeError("no luck") from OSError(len(password))


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_traceback_tells_where_and_why_and_no_variables(form: str, out: io.StringIO) -> None:
    logs.configure("info", form, out)
    try:
        _fail(SECRET)
    except RuntimeError:
        structlog.get_logger().exception("provoked")
    text = out.getvalue()
    assert "_fail" in text
    assert "no luck" in text
    assert "OSError" in text
    assert SECRET not in text


def test_a_group_of_errors_is_told_part_by_part(out: io.StringIO) -> None:
    logs.configure("info", "json", out)
    error = ExceptionGroup("several", [ValueError("one"), TypeError("two")])
    structlog.get_logger().error("provoked", exc_info=error)
    (line,) = _lines(out)
    assert line["exception"]["type"] == "ExceptionGroup"
    assert [(part["type"], part["message"]) for part in line["exception"]["parts"]] == [("ValueError", "one"), ("TypeError", "two")]


def test_a_value_that_json_does_not_know_is_shown_as_python_would(out: io.StringIO) -> None:
    logs.configure("info", "json", out)
    structlog.get_logger().info("odd", value=object)
    assert _lines(out)[0]["value"] == "<class 'object'>"


def test_a_log_that_nobody_takes_fails_nobody() -> None:
    class Gone(io.StringIO):
        def write(self, _text: str) -> int:
            raise BrokenPipeError

        def flush(self) -> None:
            raise OSError("the terminal was closed")

    logs.configure("info", "json", Gone())
    structlog.get_logger().error("provoked")
    logging.getLogger("hypercorn.error").error("provoked")


@pytest.mark.parametrize("form", ["json", "text"])
def test_the_row_that_violates_a_constraint_is_not_quoted(form: str, out: io.StringIO, database_url: str) -> None:
    logs.configure("info", form, out)
    told = f"first line\nand {SECRET}"  # a stack shows the line of code: it must not be the one with the text
    with psycopg.connect(database_url) as connection:
        connection.execute("create temporary table people (id integer not null, password_hash text)")
        try:
            connection.execute("insert into people values (null, %s)", [told])
        except psycopg.Error as error:
            structlog.get_logger().error("request_failed", exc_info=error)
    assert "violates not-null constraint" in out.getvalue()
    assert "first line" not in out.getvalue()
    assert SECRET not in out.getvalue()


REQUEST = {"method": "GET", "route": "/api/user", "status": 200, "duration_ms": 1.25, "bytes": 94, "client": "192.0.2.1", "user": "u"}


@pytest.mark.parametrize("form", ["json", "text"])
@pytest.mark.parametrize(
    "more", [{}, {"client": "two words"}, {"client": "ada@example.org", "token": "t"}, {"client": "grün", "bytes": None}]
)
def test_the_line_of_a_request_is_the_one_that_the_general_way_makes(out: io.StringIO, form: str, more: dict[str, Any]) -> None:
    logs.configure("debug", form, out)
    fields = {**REQUEST, **more}
    with structlog.contextvars.bound_contextvars(request_id="r1"):
        structlog.get_logger().info("request", **fields)
        logs.RequestLog().tell(dict(fields), is_probe=False)
        structlog.get_logger().debug("request", **fields)
        logs.RequestLog().tell(dict(fields), is_probe=True)
    lines = out.getvalue().splitlines()
    # Any time has one form.
    timeless = [re.sub(r"[0-9]", "0", line[:40]) + line[40:] for line in lines]
    assert timeless[::2] == timeless[1::2]
    assert len(lines) == 4
    assert "ada" not in out.getvalue()


def test_the_line_of_a_request_is_written_in_one_piece_to_a_file_and_fails_nobody(tmp_path: Path) -> None:
    place = tmp_path / "log"
    with place.open("w") as file:
        logs.configure("info", "json", file)
        requests = logs.RequestLog()
        structlog.get_logger().info("before")
        requests.tell(dict(REQUEST), is_probe=False)
        structlog.get_logger().info("after")
    requests.tell(dict(REQUEST), is_probe=False)
    assert [json.loads(line)["event"] for line in place.read_text().splitlines()] == ["before", "request", "after"]


def test_requests_are_told_from_the_level_of_information_on_and_probes_from_that_of_debugging(out: io.StringIO) -> None:
    told = {}
    for level in ("debug", "info", "warning"):
        logs.configure(level, "json", out)
        requests = logs.RequestLog()
        told[level] = (requests.tells_requests, requests.tells_probes)
    assert told == {"debug": (True, True), "info": (True, False), "warning": (False, False)}


def test_a_log_that_was_configured_in_another_way_gets_the_line_of_a_request_too() -> None:
    with structlog.testing.capture_logs() as captured:
        logs.RequestLog().tell(dict(REQUEST), is_probe=False)
    assert captured == [{**REQUEST, "event": "request", "log_level": "info"}]


class _Odd:
    """An object whose repr fails, or contains only halves of characters."""

    def __init__(self, says: str | None) -> None:
        self._says = says

    def __repr__(self) -> str:
        if self._says is None:
            raise RuntimeError("nothing")
        return self._says

    __str__ = __repr__


class _OddError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("nothing")


def _round() -> list[Any]:
    itself: list[Any] = []
    itself.append({"again": itself})
    return itself


def _deep() -> Any:
    value: Any = "\ud800"
    for _ in range(5000):
        value = [value]
    return value


_TEXTS: Final = st.text(st.characters(), max_size=8) | st.sampled_from(["\ud800", "a\udfffb", "\x00", "x@\ud800.example", "\n", "\u2028"])
_SCALARS: Final = st.one_of(
    st.none(),
    st.booleans(),
    st.floats(),
    st.integers(),
    st.builds(pow, st.just(10), st.just(5000)),
    _TEXTS,
    st.binary(max_size=4),
    st.builds(_Odd, st.none() | _TEXTS),
    st.builds(object),
    st.datetimes(),
    st.decimals(),
    st.builds(Token, _TEXTS),
    st.builds(_round),
    st.builds(_deep),
    st.just(type),
)
_KEYS: Final = st.one_of(_TEXTS, st.integers(), st.none(), st.tuples(_TEXTS), st.builds(_Odd, st.none() | _TEXTS))
_VALUES: Final = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3) | st.frozensets(_TEXTS), max_leaves=8
)
_ERRORS: Final = st.sampled_from([None, ValueError("\ud800"), _OddError(), ExceptionGroup("\udfff", [ValueError("\ud800"), _OddError()])])
_RESERVED: Final = frozenset({"event", "level", "timestamp", "exc_info", "exception", "stack_info", "self"})


@pytest.mark.parametrize("form", ["json", "text"])
@given(
    event=_TEXTS,
    fields=st.dictionaries(_TEXTS.filter(lambda name: name not in _RESERVED), _VALUES, max_size=4),
    error=_ERRORS,
)
@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_log_takes_whatever_it_is_given(form: str, event: str, fields: dict[str, Any], error: Exception | None) -> None:
    with TemporaryFile("w+", encoding="utf-8") as out:
        logs.configure("debug", form, out)
        structlog.get_logger().error(event, **fields, exc_info=error)
        logs.RequestLog().tell({"method": "GET", **fields}, is_probe=False)
        logging.getLogger("of.others").log(35, "%s", _Odd(event))
        logging.getLogger("of.others").error(_Odd(None), exc_info=error)
        out.seek(0)
        written = out.read()
    if form == "json":
        lines = [json.loads(line) for line in written.split("\n") if line]
        assert [line["level"] for line in lines] == ["error", "info", "warning", "error"]
    else:
        assert written.count("library_message") >= 2
        assert "request" in written


@pytest.mark.parametrize("form", ["json", "text"])
def test_half_a_character_is_told_as_it_was_sent(form: str, out: io.StringIO) -> None:
    logs.configure("info", form, out)
    structlog.get_logger().info("refused", detail="Unsupported: \ud800", number=5, nested={"all": ["well", 1.5, None]})
    assert "ud800" in out.getvalue()
    if form == "json":
        (line,) = _lines(out)
        assert {**line, "timestamp": ""} == {
            "timestamp": "",
            "level": "info",
            "event": "refused",
            "detail": "Unsupported: \\ud800",
            "number": 5,
            "nested": {"all": ["well", 1.5, None]},
        }


def test_a_stack_is_told_although_half_a_character_is_in_it(out: io.StringIO) -> None:
    logs.configure("info", "text", out)
    structlog.get_logger().error("failed", exc_info=ValueError("the claim is \ud800"))
    assert "ValueError: the claim is \\ud800" in out.getvalue()

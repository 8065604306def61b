"""The log of the program: structured lines to standard error, as text on a terminal and as JSON elsewhere. Lines of libraries go to the
same log.
"""

import logging
import os
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from traceback import TracebackException
from typing import Any, Final, TextIO, cast

import msgspec
import structlog
from structlog.contextvars import merge_contextvars
from structlog.typing import EventDict, ExceptionTransformer, ExcInfo, Processor, WrappedLogger

from core.domain.secrets import Secret
from ports.record import current_span

MASK: Final = "***"
WITHHELD: Final = "(not to be told)"
"""Stands in the log for a value that cannot be written."""
LEVELS: Final[Mapping[str, int]] = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

# No secret is logged on purpose. The mask is the second line of defence, for mistakes of ours and for the lines of libraries.
_SECRET_NAMES: Final = frozenset(
    {"password", "token", "secret", "code", "authorization", "cookie", "set-cookie", "api_key", "private_key", "passphrase"}
)
_SECRET_ENDINGS: Final = ("_password", "_token", "_secret")
_EMAIL: Final = re.compile(r"[^\s@<>()\[\]{}\"'=,:;]+@([\w-]+(?:\.[\w-]+)+)")
# PostgreSQL's detail of a violated constraint quotes the whole row, password hash included. In a readable stack trace, the detail ends at
# the next empty line.
_DETAIL: Final = re.compile(r"\nDETAIL:.*?(?=\n\n|\Z)", re.DOTALL)
_TRACEBACK_FRAMES: Final = 30
# The most levels of a nested value that cannot be encoded unchanged.
_DEEPEST: Final = 8
_LEVELS_DOWN: Final = (logging.CRITICAL, logging.ERROR, logging.WARNING, logging.INFO)
_out: "_Unfailing | None" = None
_form = "auto"


def configure(level: str, form: str, stream: TextIO | None = None) -> None:
    """From now on, everything that is logged in this process goes to `stream` (standard error), as JSON or as text."""
    global _out, _form  # noqa: PLW0603 - one log for the whole process, like structlog's own configuration
    _form = form
    out = stream if stream is not None else sys.stderr
    _out = _Unfailing(out)
    for_people = form == "text" or (form == "auto" and out.isatty())
    processors: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        name_span,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.ExceptionRenderer(_rendered(_people_traceback if for_people else _structured_traceback)),
        mask,
        _people_line if for_people else _json_line,
    ]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(file=cast("TextIO", _out)),
        cache_logger_on_first_use=True,
    )
    root = logging.getLogger()
    root.handlers[:] = [LibraryHandler()]
    # At INFO, libraries log requests, connections, start and stop, and Postern logs all of these itself.
    root.setLevel(logging.DEBUG if level == "debug" else max(LEVELS[level], logging.WARNING))
    logging.captureWarnings(capture=True)


def form() -> str:
    """The form that the setting asked for: `json`, `text`, or `auto`, also before `configure`."""
    return _form


class RequestLog:
    """Logs the line of each request. `RequestLog` writes the same line as structlog, in the form that `configure` chose, but without
    structlog's processors: one look at the context, one encoding, one write. If the log was configured in another way, for example by a
    test, the line goes through structlog.
    """

    def __init__(self) -> None:
        # The level does not change while the process runs, so a line below the level is not even built.
        self._log = structlog.get_logger().bind()
        self.tells_requests: Final = self._log.is_enabled_for(logging.INFO)
        self.tells_probes: Final = self._log.is_enabled_for(logging.DEBUG)
        last = structlog.get_config()["processors"][-1]
        self._encode = {_json_line: _json, _people_line: _people}.get(last)
        self._write = _out.write_line if _out is not None else None

    def tell(self, fields: EventDict, *, is_probe: bool) -> None:
        level = "debug" if is_probe else "info"
        if self._encode is None or self._write is None:
            getattr(self._log, level)("request", **fields)
            return
        merge_contextvars(None, level, fields)
        name_span(None, level, fields)
        time = f"{datetime.now(UTC).isoformat()[:-6]}Z"
        line = self._encode(time, level, "request", fields)
        if b"@" in line:
            # No field of a request is meant to contain an address.
            line = self._encode(time, level, "request", mask(None, level, fields))
        self._write(line)


class _Unfailing:
    """The output of the log, which never raises. A log may become unwritable: its reader exits, a terminal is closed, a disk fills up. No
    request and no shutdown fails because of an unwritable log.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._has_descriptor = False
        with suppress(OSError, ValueError):  # a text stream in memory has no buffer behind it
            self._has_descriptor = out.fileno() >= 0

    def write(self, text: str) -> None:
        with suppress(OSError, ValueError):
            self._out.write(text)

    def write_line(self, line: bytes) -> None:
        """Writes a line in one write, past the buffer. The buffer is empty after each line."""
        with suppress(OSError, ValueError):
            if not self._has_descriptor:
                self._out.write(line.decode() + "\n")
                return
            rest = memoryview(line + b"\n")
            # The descriptor is asked for each time: after the stream is closed, its number may belong to another file.
            descriptor = self._out.fileno()
            while rest:
                rest = rest[os.write(descriptor, rest) :]

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._out.flush()


class LibraryHandler(logging.Handler):
    """Passes the lines that libraries log through `logging` on to our log, under one event name."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage()
        except Exception:  # noqa: BLE001 - a library's faulty log call must not raise
            message = record.msg if isinstance(record.msg, str) else _shown(record.msg)
        level = next((named for named in _LEVELS_DOWN if record.levelno >= named), logging.DEBUG)
        structlog.get_logger().log(level, "library_message", library=record.name, message=message, exc_info=record.exc_info)


def name_span(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Adds the ids of the open span, so that a line of the log leads to its trace."""
    span = current_span.get()
    if span is not None:
        event["trace_id"] = span.trace.id
        event["span_id"] = span.id
    return event


def mask(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Masks secrets and whole e-mail addresses before a line leaves the process."""
    for name, value in event.items():
        if name != "event":
            try:
                event[name] = _masked(name, value)
            except Exception:  # noqa: BLE001 - a value that cannot be checked for secrets is not logged
                event[name] = WITHHELD
    return event


def _masked(name: str, value: Any) -> Any:
    lower = str(name).lower()
    named_so = lower in _SECRET_NAMES or lower.endswith(_SECRET_ENDINGS)
    if isinstance(value, Secret) or (named_so and value is not None and not isinstance(value, bool)):
        return MASK
    if isinstance(value, str):
        return _EMAIL.sub(rf"{MASK}@\1", value) if "@" in value else value
    if isinstance(value, Mapping):
        return {key: _masked(str(key), one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_masked("", one) for one in value]
    return value


def _rendered(render: Callable[[ExcInfo], Any]) -> ExceptionTransformer:
    """Wraps `render` so that it never raises: the `__str__` of an exception may raise another exception."""

    def rendered(exc_info: ExcInfo) -> Any:
        try:
            return render(exc_info)
        except Exception:  # noqa: BLE001 - the type alone is logged
            return {"type": exc_info[0].__qualname__, "message": WITHHELD, "frames": []}

    return rendered


def _structured_traceback(exc_info: ExcInfo) -> Any:
    return _structured(TracebackException(*exc_info, limit=_TRACEBACK_FRAMES))


def _structured(error: TracebackException) -> dict[str, Any]:
    # Local variables hold passwords and tokens, so stack traces leave them out.
    described: dict[str, Any] = {
        "type": _type_name(error),
        "message": _DETAIL.sub("", str(error)),
        "frames": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in error.stack],
    }
    if error.exceptions:
        described["parts"] = [_structured(part) for part in error.exceptions]
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None:
        described["cause"] = _structured(cause)
    return described


def _type_name(error: TracebackException) -> str:
    # Python 3.13 added exc_type_str and deprecated exc_type.
    return getattr(error, "exc_type_str", None) or error.exc_type.__qualname__


def _people_traceback(exc_info: ExcInfo) -> str:
    return _DETAIL.sub("", "".join(TracebackException(*exc_info, limit=_TRACEBACK_FRAMES).format())).rstrip()


_encode: Final = msgspec.json.Encoder(enc_hook=repr).encode


def _json_line(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    return _json(event.pop("timestamp"), event.pop("level"), event.pop("event"), event).decode()


def _people_line(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    time, level, name = event.pop("timestamp"), event.pop("level"), event.pop("event")
    trace = event.pop("exception", None)
    line = _people(time, level, name, event).decode()
    return line if trace is None else f"{line}\n{_writable(str(trace))}"


def _json(time: str, level: str, name: str, event: EventDict) -> bytes:
    # Time, level and event first, in the order that a line is read.
    line = {"timestamp": time, "level": level, "event": name, **event}
    try:
        return _encode(line)
    except Exception:  # noqa: BLE001 - for example half a surrogate pair, a huge number, a value that contains itself
        return _encode({_writable(str(key)): _plain(value, _DEEPEST) for key, value in line.items()})


def _people(time: str, level: str, name: str, event: EventDict) -> bytes:
    said = " ".join([f"{key}={_shown(value)}" for key, value in event.items()])
    return _writable(f"{time[11:23]} {level:<7} {name}{' ' if said else ''}{said}").encode()


def _shown(value: Any) -> str:
    try:
        text = value if isinstance(value, str) else repr(value)
    except Exception:  # noqa: BLE001 - a failing `repr` must not lose the line
        text = WITHHELD
    return repr(text) if not text.isprintable() or " " in text or not text else text


def _plain(value: Any, depth: int) -> Any:
    """The parts of the value that can be encoded."""
    try:
        if isinstance(value, Mapping) and depth:
            return {_writable(str(key)): _plain(one, depth - 1) for key, one in value.items()}
        if isinstance(value, list | tuple) and depth:
            return [_plain(one, depth - 1) for one in value]
        if value is None or isinstance(value, int | float):
            return msgspec.Raw(_encode(value))
        return _writable(value if isinstance(value, str) else repr(value))
    except Exception:  # noqa: BLE001 - a failing `repr` must not lose the line
        return WITHHELD


def _writable(text: str) -> str:
    """The text with half surrogate pairs escaped, because half a surrogate pair cannot be encoded in UTF-8."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()

"""How the program logs: structured lines to standard error, JSON unless a person is watching; what libraries log joins them."""

import logging
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from traceback import TracebackException
from typing import Any, Final, TextIO, cast

import msgspec
import structlog
from structlog.typing import EventDict, ExcInfo, Processor, WrappedLogger

from core.domain.secrets import Secret

MASK: Final = "***"
LEVELS: Final[Mapping[str, int]] = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

# Nothing of the kind is logged on purpose. This is the second line, for the day somebody does, and for what libraries say.
_SECRET_NAMES: Final = frozenset(
    {"password", "token", "secret", "code", "authorization", "cookie", "set-cookie", "api_key", "private_key", "passphrase"}
)
_SECRET_ENDINGS: Final = ("_password", "_token", "_secret")
_EMAIL: Final = re.compile(r"[^\s@<>()\[\]{}\"'=,:;]+@([\w-]+(?:\.[\w-]+)+)")
# PostgreSQL's detail of a violated constraint quotes the row, password hash and all. In a readable stack it ends where the next one begins.
_DETAIL: Final = re.compile(r"\nDETAIL:.*?(?=\n\n|\Z)", re.DOTALL)
_TRACEBACK_FRAMES: Final = 30


def configure(level: str, form: str, stream: TextIO | None = None) -> None:
    """From now on, everything that is logged in this process goes to `stream` (standard error), as JSON or as text."""
    out = stream if stream is not None else sys.stderr
    for_people = form == "text" or (form == "auto" and out.isatty())
    processors: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.ExceptionRenderer(_people_traceback if for_people else _structured_traceback),
        mask,
        _people_line if for_people else _json_line,
    ]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(file=cast(TextIO, _Unfailing(out))),
        cache_logger_on_first_use=True,
    )
    root = logging.getLogger()
    root.handlers[:] = [LibraryHandler()]
    # Libraries tell much at INFO that is ours to tell: requests, connections, start and stop.
    root.setLevel(logging.DEBUG if level == "debug" else max(LEVELS[level], logging.WARNING))
    logging.captureWarnings(capture=True)


class _Unfailing:
    """Whoever reads our log may go away, a terminal may be closed, a disk fill up: no request fails for that, and no shutdown."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def write(self, text: str) -> None:
        with suppress(OSError, ValueError):
            self._out.write(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._out.flush()


class LibraryHandler(logging.Handler):
    """Hands what a library logs through `logging` to our log, under one event name."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage()
        except (TypeError, ValueError):
            message = str(record.msg)
        structlog.get_logger().log(record.levelno, "library_message", library=record.name, message=message, exc_info=record.exc_info)


def mask(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Secrets, and whole e-mail addresses, do not leave the process by this door."""
    for name, value in event.items():
        if name != "event":
            event[name] = _masked(name, value)
    return event


def _masked(name: str, value: Any) -> Any:
    lower = name.lower()
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


def _structured_traceback(exc_info: ExcInfo) -> Any:
    return _structured(TracebackException(*exc_info, limit=_TRACEBACK_FRAMES))


def _structured(error: TracebackException) -> dict[str, Any]:
    # Local variables hold passwords and tokens: they are no part of it.
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
    # Python 3.13 brought exc_type_str and deprecated exc_type.
    return getattr(error, "exc_type_str", None) or error.exc_type.__qualname__


def _people_traceback(exc_info: ExcInfo) -> str:
    return _DETAIL.sub("", "".join(TracebackException(*exc_info, limit=_TRACEBACK_FRAMES).format())).rstrip()


def _json_line(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    # Time, level and event first: that is how a line is read.
    ordered = {"timestamp": event.pop("timestamp"), "level": event.pop("level"), "event": event.pop("event"), **event}
    return msgspec.json.encode(ordered, enc_hook=repr).decode()


def _people_line(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    time, level, name = event.pop("timestamp"), event.pop("level"), event.pop("event")
    trace = event.pop("exception", None)
    said = " ".join(f"{key}={_shown(value)}" for key, value in event.items())
    line = f"{time[11:23]} {level:<7} {name}{' ' if said else ''}{said}"
    return line if trace is None else f"{line}\n{trace}"


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return repr(text) if not text.isprintable() or " " in text or not text else text

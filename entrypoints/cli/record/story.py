"""`postern story`: prints all that is known to have followed from one request, in the order of time."""

import argparse
from datetime import UTC, datetime
from typing import Any, Final

import trio

from core.domain.errors import BadRequest
from core.domain.formats import timestamp
from core.domain.record.stories import MOST_ROWS, SEARCHED, Story, StoryRow, sought_story
from entrypoints.cli.opening import opened_postern
from entrypoints.cli.output.printing import plain, print_json, printable
from entrypoints.failures import FAILURE, OK, USAGE, StartFailed
from entrypoints.logs import mask
from entrypoints.settings import Settings

# A mail server's answer may be long.
_LONGEST: Final = 300


class _NoStory(StartFailed):
    status = USAGE


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    return trio.run(_tell, arguments, settings)


async def _tell(arguments: argparse.Namespace, settings: Settings) -> int:
    try:
        since, until = _moment("--since", arguments.since), _moment("--until", arguments.until)
        sought = sought_story(arguments.id, since, until, datetime.now(UTC))
    except BadRequest as error:
        raise _NoStory(error.message) from None
    async with opened_postern(settings) as postern:
        story = await postern.record.stories.find(sought)
    if arguments.json:
        print_json(_object(story))
    else:
        for line in _lines(story):
            print(line)
    return OK if story.rows else FAILURE


def _moment(option: str, text: str | None) -> datetime | None:
    """A time without an offset is in UTC, as all times that commands print."""
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadRequest(f"{option} must be a time such as 2026-03-01T12:00Z, not {printable(text)!r}") from None


def _object(story: Story) -> dict[str, Any]:
    return {
        "since": timestamp(story.sought.since),
        "until": timestamp(story.sought.until),
        "searched": list(SEARCHED),
        "is_whole": story.is_whole,
        "rows": [mask(None, "", plain(row)) for row in story.rows],
    }


def _lines(story: Story) -> list[str]:
    requests = len({row.request for row in story.rows})
    lines = [_line(row, names_request=requests > 1) for row in story.rows]
    if not story.is_whole:
        lines.append(f"… and more: the first {MOST_ROWS} are shown. Narrow the time with --since and --until.")
    found = "1 row" if len(story.rows) == 1 else f"{len(story.rows)} rows"
    several = f" of {requests} requests that had the same id" if requests > 1 else ""
    lines += [
        f"{found}{several}, from {timestamp(story.sought.since)} to {timestamp(story.sought.until)}, among {', '.join(SEARCHED)}.",
        "Jobs and emails are removed from their table when they are complete: the log lines with the same `request_id` show them.",
    ]
    return lines


def _line(row: StoryRow, *, names_request: bool) -> str:
    parts = [row.state]
    if row.attempts is not None:
        parts.append("1 attempt" if row.attempts == 1 else f"{row.attempts} attempts")
    if row.next_at is not None:
        parts.append(f"next {timestamp(row.next_at)}")
    if row.actor is not None:
        parts.append(f"by {row.actor}")
    if row.organization is not None:
        parts.append(f"in {row.organization}")
    if row.recipient is not None:
        parts.append(f"to {row.recipient}")
    if names_request:
        parts.append(f"of request {row.request}")
    if row.error is not None:
        parts.append(row.error)
    told = mask(None, "", {"what": row.what, "parts": ", ".join(parts)})
    return f"{timestamp(row.at)}  {row.noun:<11}  {row.id}  {printable(told['what'], _LONGEST)}  {printable(told['parts'], _LONGEST)}"

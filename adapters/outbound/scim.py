"""The SCIM client (RFC 7644), which provisions users to applications."""

import re
from base64 import b64decode
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import quote, unquote

import msgspec
import trio

from core.domain.far_numbers import has_too_many_values
from core.domain.federation.provisioning.people import (
    ACTIVE,
    EXTERNAL_ID,
    LONGEST_FAR_ID,
    USER_NAME,
    FarIdentity,
    Value,
    Wanted,
    entries_with,
    found_at,
    place_of,
    resource_of,
)
from core.domain.outbound import NotADestination, destination
from core.frozen import Frozen
from ports.federation.provisioning_runs import (
    FarExchange,
    FarFailed,
    FarFault,
    FarOtherId,
    FarPage,
    FarPerson,
    FarRefused,
    FarSite,
)
from ports.outbound import Outbound, OutboundAnswer, OutboundFailed, OutboundRequest
from ports.system import Clock

LONGEST_SCIM_ANSWER: Final = 1 << 20
PATIENCE: Final = timedelta(seconds=20)
_PERSON: Final = "/Users/{id}"
_CONFIGURATION: Final = "/ServiceProviderConfig"
# Of a system whose configuration nobody can read: what is asked next says what is wrong with it.
_SAYS_NOTHING: Final = frozenset({FarFault.CREDENTIALS, FarFault.REDIRECT, FarFault.SERVER_ERROR, FarFault.TOO_LONG})
_LONGEST_CURSOR: Final = 2000
_MEDIA_TYPE: Final = "application/scim+json"
_PATCH_SCHEMA: Final = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
_LONGEST_SAID: Final = 300
_LONGEST_TYPE: Final = 50
_SHORTEST_VALUE: Final = 3
# A value of a byte or two becomes an object of sixty. An honest page of a hundred people has a few thousand.
_MOST_VALUES: Final = 100_000
# People in one turn of the event loop: one takes a few hundredths of a millisecond.
_A_TURN: Final = 10
_ADDRESS: Final = re.compile(r"[^\s\"'<>()]+@[^\s\"'<>()]+")
_QUOTED: Final = re.compile(r"\"[^\"]*\"|'[^']*'|“[^”]*”|`[^`]*`")
_NUMBER: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9]{4,}", re.IGNORECASE)
_TYPE: Final = re.compile(r"[A-Za-z]{1,50}")


class _Listed(msgspec.Struct):
    resources: list[msgspec.Raw] = msgspec.field(name="Resources", default_factory=list)
    total: int | str | None = msgspec.field(name="totalResults", default=None)
    next_cursor: str | None = msgspec.field(name="nextCursor", default=None)


_LISTED: Final = msgspec.json.Decoder(_Listed)
_RESOURCE: Final = msgspec.json.Decoder(dict[str, Any])


class ScimClient:
    """Implements `ports.federation.provisioning_runs.FarSide`.

    A response is read at most to a length, and in parts: a page of a hundred users must not block the event loop. It follows no redirects,
    because the token belongs to one host.
    """

    def __init__(self, outbound: Outbound, clock: Clock) -> None:
        self._outbound = outbound
        self._clock = clock

    async def page(self, site: FarSite, start: int, count: int) -> FarPage:
        answer = await self._asked(site, "GET", f"/Users?startIndex={start}&count={count}", "/Users?startIndex")
        return await self._page(site, answer)

    async def offers_cursors(self, site: FarSite) -> bool:
        try:
            answer = await self._asked(site, "GET", _CONFIGURATION, _CONFIGURATION)
            said = _RESOURCE.decode(bounded(answer.body)).get("pagination")
        except FarRefused:
            return False
        except FarFailed as failed:
            if failed.fault not in _SAYS_NOTHING:
                raise
            return False
        except (msgspec.DecodeError, ValueError, RecursionError):
            return False
        return isinstance(said, Mapping) and said.get("cursor") is True

    async def page_at(self, site: FarSite, cursor: str, count: int) -> FarPage:
        place = f"cursor={quote(cursor, safe='')}" if cursor else "cursor"
        answer = await self._asked(site, "GET", f"/Users?{place}&count={count}", "/Users?cursor", values=[cursor])
        return await self._page(site, answer)

    async def find(self, site: FarSite, attribute: str, value: str) -> Sequence[FarPerson]:
        # A server that ignores filters answers with everybody.
        return [one for one in await self._filtered(site, attribute, value) if _matches(one, attribute, value)]

    async def takes_filters(self, site: FarSite, known: FarIdentity, nobody: str) -> bool:
        if not known.user_name or await self._filtered(site, USER_NAME, nobody):
            return False
        return known.far_id in {one.identity.far_id for one in await self.find(site, USER_NAME, known.user_name)}

    async def _filtered(self, site: FarSite, attribute: str, value: str) -> Sequence[FarPerson]:
        # A quotation mark in the value would end it, and the rest would be a filter of somebody else's.
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        asked = quote(f'{attribute} eq "{escaped}"', safe="")
        answer = await self._asked(site, "GET", f"/Users?filter={asked}&count=10", f"/Users?filter={attribute}", values=[value])
        return (await self._page(site, answer)).people

    async def read(self, site: FarSite, far_id: str) -> FarPerson | None:
        try:
            answer = await self._asked(site, "GET", _path(far_id), _PERSON)
        except FarRefused as refused:
            if refused.status == 404:
                return None
            raise
        return self._same(self._person(site, answer), far_id)

    async def make(self, site: FarSite, resource: Mapping[str, Any]) -> FarPerson:
        answer = await self._asked(site, "POST", "/Users", "/Users", resource)
        made = self._person(site, answer)
        external = made.identity.external_id
        if external is not None and external != resource[EXTERNAL_ID]:
            raise FarOtherId
        return made

    async def change(self, site: FarSite, theirs: FarPerson, wanted: Wanted, names: Sequence[str]) -> None:
        far_id = theirs.identity.far_id
        asked = {name: wanted[name] for name in names}
        if site.dialect.patches:
            operations = [_operation(name, value, theirs.resource) for name, value in asked.items()]
            body: Mapping[str, Any] = {"schemas": [_PATCH_SCHEMA], "Operations": operations}
            answer = await self._asked(site, "PATCH", _path(far_id), _PERSON, body)
        else:
            # What is not named would go with a replacement, so everything of theirs goes back.
            answer = await self._asked(site, "PUT", _path(far_id), _PERSON, resource_of(asked, theirs.resource))
        if answer.status != 204 and answer.body:
            self._same(self._person(site, answer), far_id)

    async def delete(self, site: FarSite, far_id: str) -> bool:
        if not site.dialect.deletes:
            return False
        try:
            await self._asked(site, "DELETE", _path(far_id), _PERSON)
        except FarRefused as refused:
            if refused.status in {405, 501}:
                return False
            if refused.status != 404:
                raise
        return True

    @staticmethod
    def _same(person: FarPerson, far_id: str) -> FarPerson:
        if person.identity.far_id != far_id:
            raise FarOtherId
        return person

    async def _page(self, site: FarSite, answer: OutboundAnswer) -> FarPage:
        try:
            listed = _LISTED.decode(bounded(answer.body))
            total = int(listed.total) if listed.total is not None else len(listed.resources)
            cursor = _cursor(listed.next_cursor)
            people = list[FarPerson]()
            for at, raw in enumerate(listed.resources):
                if at % _A_TURN == 0:
                    await trio.lowlevel.checkpoint()
                people.append(_made(_RESOURCE.decode(raw)))
        except (msgspec.DecodeError, ValueError, RecursionError):
            raise self._malformed(site) from None
        return FarPage(people, total, cursor, says_total=listed.total is not None)

    def _person(self, site: FarSite, answer: OutboundAnswer) -> FarPerson:
        try:
            return _made(_RESOURCE.decode(bounded(answer.body)))
        except (msgspec.DecodeError, ValueError, RecursionError):
            raise self._malformed(site) from None

    def _malformed(self, site: FarSite) -> FarFailed:
        self._note(site, _Said("-", "-"), FarFault.MALFORMED, has_failed=True)
        return FarFailed(FarFault.MALFORMED)

    async def _asked(
        self,
        site: FarSite,
        method: str,
        target: str,
        form: str,
        body: Mapping[str, Any] | None = None,
        *,
        values: Collection[str] = (),
    ) -> OutboundAnswer:
        """Raises `FarFailed` and `FarRefused`."""
        headers = {"accept": f"{_MEDIA_TYPE}, application/json", "authorization": f"Bearer {site.token.reveal()}"}
        content = b""
        if body is not None:
            content = msgspec.json.encode(body)
            headers["content-type"] = _MEDIA_TYPE
            values = [*values, *_texts(body)]
        try:
            request = OutboundRequest(destination(site.base_url.rstrip("/") + target), content, headers)
        except NotADestination:
            raise FarFailed(FarFault.MALFORMED) from None
        try:
            answer = await self._outbound.send(method, request, PATIENCE, most=LONGEST_SCIM_ANSWER)
        except OutboundFailed as failed:
            self._note(site, _Said(method, form), failed.failure.value, has_failed=True)
            raise FarFailed(failed.failure.value, is_away=not failed.was_connected) from None
        return self._judged(site, method, form, answer, values)

    def _judged(self, site: FarSite, method: str, form: str, answer: OutboundAnswer, values: Collection[str]) -> OutboundAnswer:
        status = answer.status
        if len(answer.body) > LONGEST_SCIM_ANSWER:
            self._note(site, _Said(method, form, status), FarFault.TOO_LONG, has_failed=True)
            raise FarFailed(FarFault.TOO_LONG)
        if 200 <= status < 300:
            self._note(site, _Said(method, form, status), "", has_failed=False)
            return answer
        scim_type, said = _error(answer.body)
        self._note(
            site,
            _Said(method, form, status, scim_type),
            without_secret(masked(said, values), site.token.reveal()),
            # Whoever asks for a person may hear that there is none, and no system needs to say what it can.
            has_failed=form != _CONFIGURATION and (status != 404 or form != _PERSON),
        )
        if status == 429 or (status == 503 and "retry-after" in answer.headers):
            raise FarFailed(FarFault.THROTTLED, self._retry_after(answer.headers.get("retry-after")))
        if 300 <= status < 400:
            raise FarFailed(FarFault.REDIRECT)
        if status in {401, 403}:
            raise FarFailed(FarFault.CREDENTIALS)
        if status == 501:
            raise FarRefused(status, scim_type)
        if status >= 500 or status < 200:
            raise FarFailed(FarFault.SERVER_ERROR)
        raise FarRefused(status, scim_type)

    def _retry_after(self, said: str | None) -> timedelta:
        """In seconds, or as a date (RFC 9110 section 10.2.3)."""
        text = (said or "").strip()
        if text.isascii() and text.isdigit():
            return timedelta(seconds=min(int(text[:9]), 1 << 20))
        try:
            return max(parsedate_to_datetime(text) - self._clock.now(), timedelta(seconds=1))
        except (ValueError, TypeError, OverflowError):
            return timedelta(seconds=1)

    def _note(self, site: FarSite, about: "_Said", said: str, *, has_failed: bool) -> None:
        site.note(
            FarExchange(
                at=self._clock.now(),
                method=about.method,
                path=about.form,
                status=about.status,
                scim_type=about.scim_type,
                said=said,
                has_failed=has_failed,
            )
        )


class _Said(Frozen):
    method: str
    form: str
    status: int | None = None
    scim_type: str | None = None


def bounded(body: bytes) -> bytes:
    """Raises `ValueError` for a text with more values than a process should hold, or with numbers that take long to read."""
    if has_too_many_values(body, _MOST_VALUES):
        raise ValueError("the answer takes too long to read")
    return body


def _cursor(said: str | None) -> str | None:
    """Raises `ValueError` for one that we would not keep. Some systems end their list with an empty one."""
    if not said:
        return None
    if len(said) > _LONGEST_CURSOR or not said.isascii() or not said.isprintable():
        raise ValueError
    return said


def _path(far_id: str) -> str:
    return f"/Users/{quote(far_id, safe='')}"


def _made(resource: Mapping[str, Any]) -> FarPerson:
    """Raises `ValueError`. Some systems have numbers for ids."""
    given = resource.get("id")
    far_id = str(given) if isinstance(given, str | int) and not isinstance(given, bool) else ""
    # A path of dots leads elsewhere.
    if not 0 < len(far_id) <= LONGEST_FAR_ID or not far_id.isprintable() or set(far_id) == {"."}:
        raise ValueError
    external, name = found_at(resource, EXTERNAL_ID), found_at(resource, USER_NAME)
    identity = FarIdentity(
        far_id=far_id,
        external_id=None if external is None else str(external),
        user_name=None if name is None else str(name),
        is_active=found_at(resource, ACTIVE) is True,
    )
    return FarPerson(identity, resource)


def _matches(person: FarPerson, attribute: str, value: str) -> bool:
    found = found_at(person.resource, attribute)
    if attribute == USER_NAME:
        return str(found).casefold() == value.casefold()
    return found == value


def _operation(name: str, value: Value, theirs: Mapping[str, Any]) -> Mapping[str, Any]:
    place = place_of(name)
    if value is None:
        return {"op": "remove", "path": name if place.type is None else f'{place.attribute}[type eq "{place.type}"]'}
    if place.attribute == "emails":
        # Some systems take no filter in this path, so the whole list goes, with the other addresses that stand there.
        return {"op": "replace", "path": "emails", "value": entries_with(theirs, name, value)}
    return {"op": "replace", "path": name, "value": value}


def _error(body: bytes) -> tuple[str | None, str]:
    """The type and the text of an error (RFC 7644 section 3.12)."""
    try:
        said = _RESOURCE.decode(bounded(body[: 64 << 10]))
    except (msgspec.DecodeError, ValueError, RecursionError):
        # Bytes that are no UTF-8 are a `ValueError` of Python's own.
        return None, ""
    scim_type, detail = said.get("scimType"), said.get("detail")
    is_type = isinstance(scim_type, str) and _TYPE.fullmatch(scim_type) is not None
    return scim_type if is_type else None, detail if isinstance(detail, str) else ""


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)


def masked(said: str, values: Collection[str]) -> str:
    """The text of another system without what was sent, and without anything that looks like a person's."""
    text = said[: 4 * _LONGEST_SAID]
    for value in sorted({one for one in values if len(one) >= _SHORTEST_VALUE}, key=len, reverse=True):
        text = re.sub(re.escape(value), "…", text, flags=re.IGNORECASE)
    for shape in (_ADDRESS, _QUOTED, _NUMBER):
        text = shape.sub("…", text)
    return "".join(one if one.isprintable() else " " for one in text)[:_LONGEST_SAID]


# So much of a token helps to guess the rest.
_PART: Final = 6
_WORDS: Final = re.compile(r"[^\s\"'“”<>(){}\[\],;]+")
_ENCODED: Final = re.compile(r"[A-Za-z0-9+/_-]{8,}")
_HEX: Final = re.compile(r"(?:[0-9A-Fa-f]{2}){3,}")
_STANDARD: Final = str.maketrans("-_", "+/")


def without_secret(said: str, secret: str) -> str:
    """A server may say back what it was sent, or a part of it: as it is, backwards, or in an encoding that anybody reads."""
    folded = secret.casefold()
    parts = {folded[at : at + _PART] for at in range(len(folded) - _PART + 1)} or {folded}

    def has_part(text: str) -> bool:
        folded = text.casefold()
        return any(one[at : at + _PART] in parts for one in (folded, folded[::-1]) for at in range(len(folded) - _PART + 1))

    def shown(word: re.Match[str]) -> str:
        return "…" if any(map(has_part, _readings(word[0]))) else word[0]

    return _WORDS.sub(shown, said)


def _readings(word: str) -> Iterator[str]:
    """What a word may mean to somebody who reads it."""
    yield word
    yield unquote(word)
    for run in _HEX.findall(word):
        yield bytes.fromhex(run).decode("latin-1")
        yield bytes.fromhex(run[1:-1]).decode("latin-1")
    for one in (word, word[::-1]):
        for run in _ENCODED.findall(one):
            # It may begin anywhere in a group of four, behind other letters.
            for start in range(4):
                cut = run[start:].translate(_STANDARD)
                yield b64decode(cut[: len(cut) // 4 * 4]).decode("latin-1")

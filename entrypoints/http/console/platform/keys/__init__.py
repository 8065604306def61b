"""Keys of the installation: keys for machines, signing keys and encryption keys, with their rotation."""

from typing import Any, Final

import trio

from core.domain.errors import Conflict
from core.domain.identity.proofs import StepUp
from core.domain.record.events import Actor
from core.domain.tenancy.management_keys import PlatformCapability
from core.domain.tokens import KeyPurpose, KeyState
from core.usecases.keys import queue_reencryption
from entrypoints.assembly.configured import key_file
from entrypoints.bootstrap import Postern
from entrypoints.encryption_keys import prepend_key
from entrypoints.failures import StartFailed
from entrypoints.http.console.kit.cells import Tone, code, copied, plain, rows_of, state, when, words, yes_or_no
from entrypoints.http.console.kit.declaring import console, stated
from entrypoints.http.console.kit.forms import Asked, shape
from entrypoints.http.console.kit.resource_pages import pages
from entrypoints.http.console.kit.resources import Act, Ending, Making, Resource
from entrypoints.http.console.kit.visit import AnyCall, ButtonLink, DoneLink, Head, Page, PageVisit
from entrypoints.http.console.platform.platform_tabs import KEYS, KEYS_TAB, OPERATION_ENTRY, SIGNING_KEYS, SIGNING_KEYS_TAB, position
from entrypoints.http.console.platform.questions import Question, QuestionSubject, question_pages
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.callers import PLATFORM_OWNER
from entrypoints.http.routes.platform.installation import list_signing_keys, rotate_signing_keys
from entrypoints.http.routes.platform.management_keys import (
    adopt_platform_key,
    create_platform_key,
    end_platform_key,
    get_platform_key,
    list_platform_keys,
)

_ADOPTED: Final = {True: ("console.state.adopted", Tone.GOOD), False: ("console.state.of_its_maker", Tone.PLAIN)}

PLATFORM_KEYS: Final = Resource(
    name="platform_keys",
    position=position(OPERATION_ENTRY, KEYS_TAB),
    at=KEYS,
    listed=list_platform_keys,
    rows="management_keys",
    columns=(
        plain("name"),
        code("prefix"),
        plain("maker_email", "console.field.maker"),
        state(lambda key: key.adopted_at is not None, _ADOPTED),
        words("capabilities", PlatformCapability),
        when("last_used_at"),
        when("expires_at"),
    ),
    parameter="key_id",
    record=get_platform_key,
    state=(lambda key: key.adopted_at is not None, _ADOPTED.__getitem__),
    facts=(
        code("prefix"),
        words("capabilities", PlatformCapability),
        copied("id"),
        when("last_used_at"),
        when("created_at"),
        when("expires_at"),
        plain("maker_email", "console.field.maker"),
        yes_or_no("maker_is_here", "console.field.maker_is_owner", good=True),
        when("adopted_at"),
        when("former_secret_until"),
    ),
    making=Making(
        shape(create_platform_key, "name", "capabilities", Asked("expires_in_days", hint="console.platform_keys.days_hint")),
        secret="key",  # noqa: S106 - the name of a field
    ),
    acts=(
        Act(
            "adopt",
            adopt_platform_key,
            asks=True,
            secret="key",  # noqa: S106 - the name of a field
            shows=lambda key: key.adopted_at is None,
        ),
    ),
    ending=Ending(end_platform_key),
)


_ROTATE: Final = f"{SIGNING_KEYS}/rotate"
_ROTATE_ENCRYPTION: Final = f"{SIGNING_KEYS}/rotate-encryption"
_POSITION: Final = position(OPERATION_ENTRY, SIGNING_KEYS_TAB)
_COLUMNS: Final = (
    words("purpose", KeyPurpose),
    state(
        "state",
        {
            KeyState.CURRENT: ("console.state.signs", Tone.GOOD),
            KeyState.NEXT: ("console.state.next", Tone.PLAIN),
            KeyState.OUTGOING: ("console.state.verifies", Tone.PLAIN),
        },
    ),
    when(lambda key: key.activated_at or key.created_at, "console.field.since"),
    when("retires_at"),
    code("id"),
)
_ENCRYPTION: Final = (
    state("encrypts", {True: ("console.state.encrypts", Tone.GOOD), False: ("console.state.decrypts", Tone.PLAIN)}),
    code("id"),
)


async def _show_signing_keys(call: AnyCall, postern: Postern) -> Page:
    visit = PageVisit(call, postern)
    keys = await visit.ask(list_signing_keys)
    page = visit.show(
        "platform/keys/signing_keys.html",
        _POSITION,
        Head(
            title=visit.text("console.installation_keys.title"),
            main=ButtonLink(visit.text("console.installation_keys.rotate"), _ROTATE, "quiet"),
            curl=visit.curl(list_signing_keys),
            done=call.query.done,
        ),
        columns=_COLUMNS,
        rows=rows_of(_COLUMNS, keys.signing_keys, visit.text, visit.path),
        encryption_columns=_ENCRYPTION,
        encryption_rows=rows_of(_ENCRYPTION, keys.encryption_keys, visit.text, visit.path),
        finished=keys.reencryption_finished,
        rotates="" if key_file(postern.settings) is None else _ROTATE_ENCRYPTION,
    )
    return Answer(page, 200)


async def _load(visit: PageVisit) -> QuestionSubject:
    title = visit.text("console.installation_keys.title")
    return QuestionSubject(title, SIGNING_KEYS, ((title, SIGNING_KEYS),))


async def _rotate(visit: PageVisit, _subject: QuestionSubject, _body: Any) -> None:
    await visit.ask(rotate_signing_keys)


async def _rotate_encryption(visit: PageVisit, _subject: QuestionSubject, _body: Any) -> None:
    await _put_in_force(visit.postern, visit.call.actor)


async def _put_in_force(postern: Postern, actor: Actor) -> None:
    try:
        key = await trio.to_thread.run_sync(prepend_key, postern.settings)
    except StartFailed as failure:
        raise Conflict(str(failure)) from failure
    await queue_reencryption(postern.foundation.unit_of_work, key, actor)


def _question(name: str, at: str, do: Any, **more: Any) -> Question:
    return Question(name=name, texts="console.installation_keys", at=at, position=_POSITION, load=_load, do=do, **more)


PAGES: Final = (
    *pages(PLATFORM_KEYS),
    console.get(SIGNING_KEYS, of=list_signing_keys)(stated(_show_signing_keys, "show_signing_keys", SIGNING_KEYS, query=DoneLink)),
    *question_pages(_question("rotate", _ROTATE, _rotate, of=rotate_signing_keys)),
    *question_pages(
        _question("rotate_encryption", _ROTATE_ENCRYPTION, _rotate_encryption, of=PLATFORM_OWNER, step_up=StepUp.ACCOUNT),
    ),
)

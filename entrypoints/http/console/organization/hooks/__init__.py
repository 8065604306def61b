"""The hook before a sign-in, of an organization or the installation: what it is asked and when, what it has said, and whether it counts."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from core.domain.tenancy.hooks import ENOUGH_QUESTIONS, ENOUGH_TIME, HookSilence, HookStands
from core.frozen import Frozen
from entrypoints.http.console.kit.cells import Tone, code, copied, in_words, number, sentence, state, when, words
from entrypoints.http.console.kit.forms import Asked, Choice, shape
from entrypoints.http.console.kit.lists import latest_of
from entrypoints.http.console.kit.navigation import PagePosition
from entrypoints.http.console.kit.resource_pages import facts_of, pages
from entrypoints.http.console.kit.resources import Act, Ending, Resource, Section
from entrypoints.http.console.kit.visit import PageVisit
from entrypoints.http.console.organization import organization_tabs
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.routes.tenancy.hooks import (
    activate_sign_in_hook,
    disable_sign_in_hook,
    get_sign_in_hook,
    list_sign_in_hook_exchanges,
    remove_sign_in_hook,
    rotate_sign_in_hook_secret,
    set_sign_in_hook,
    test_sign_in_hook,
)
from ports.outbound import Failure
from ports.texts import Text

_SECRET: Final = "secret"  # noqa: S105 - the name of a field
_STANDS: Final[Mapping[str, tuple[str, Tone]]] = {
    HookStands.SHADOW: ("console.hook.shadow", Tone.WARN),
    HookStands.COUNTS: ("console.hook.counts", Tone.GOOD),
}
_OUTCOMES: Final[Mapping[str, tuple[str, Tone]]] = {
    "go_on": ("console.hook_exchanges.go_on", Tone.GOOD),
    "second_factor": ("console.hook_exchanges.second_factor", Tone.PLAIN),
    "passkey": ("console.hook_exchanges.passkey", Tone.PLAIN),
    "no": ("console.hook_exchanges.no", Tone.WARN),
    "silent": ("console.hook_exchanges.silent", Tone.BAD),
}
_FAILURES: Final = frozenset(one.value for one in Failure)
_FIGURES: Final = (
    number("report.asked", "console.hook.asked"),
    number("report.silent", "console.hook.silent"),
    number("report.refused", "console.hook.refused"),
    number("report.factors", "console.hook.factors"),
    number("report.mean_milliseconds", "console.hook.mean"),
    number("report.slowest_milliseconds", "console.hook.slowest"),
)
_SETTINGS: Final = (
    code("address", "console.hook.address"),
    words("silence", HookSilence, "console.hook.silence"),
    number("seconds", "console.hook.seconds"),
)


# What an owner should know before the hook counts.
_UNASKED: Final = (
    number("listed_only", "console.hook.listed_members"),
    number("user_keys", "console.hook.keys_of_people"),
)


async def _silences(visit: PageVisit) -> Sequence[Choice]:
    return [Choice(one.value, in_words("silence", one, visit.text)) for one in HookSilence]


def _kind(one: Any, text: Text) -> str:
    return (
        text("console.hook_exchanges.test")
        if one.is_test
        else text("console.hook_exchanges.counted" if one.counted else "console.hook.shadow")
    )


def _why(one: Any, text: Text) -> str:
    """The reason of a no, or why there was no answer that counts. Failed calls have the words of webhooks."""
    if not one.why:
        return ""
    key = "console.delivery_problem" if one.why in _FAILURES else "console.hook_why"
    return str(text(f"{key}.{one.why}"))


def _answer(tried: Any, text: Text) -> str:
    said, _ = _OUTCOMES[tried.outcome]
    return ": ".join(filter(None, (text(said), _why(tried, text))))


def _only_waits(hook: Any) -> bool:
    """Whether it takes nothing but time or requests until the hook can be enforced."""
    return hook.stands is HookStands.SHADOW and hook.has_secret and not hook.is_held and not hook.report.may_count


def _later(hook: Any, text: Text) -> str:
    """From when on the hook can be enforced. Empty if it can, or if its secret or a restore is in the way."""
    if not _only_waits(hook):
        return ""
    return str(text("console.hook.later", count=ENOUGH_QUESTIONS - hook.report.asked, time=f"{hook.since + ENOUGH_TIME:%H:%M}"))


def _progress(visit: PageVisit, hook: Any) -> int | None:
    """How much of what a hook needs before it can be enforced has passed, of a hundred. None where that is no question."""
    if not _only_waits(hook):
        return None
    by_requests: int = hook.report.asked * 100 // ENOUGH_QUESTIONS
    by_time = int(100 * ((visit.postern.foundation.clock.now() - hook.since) / ENOUGH_TIME))
    return min(max(by_requests, by_time), 99)


class HookPages(Frozen, kw_only=True):
    """The pages of one keeper. Both share their texts."""

    name: str
    """For the names of the handlers."""
    at: str
    position: PagePosition
    get: Endpoint
    change: Endpoint
    remove: Endpoint
    rotate: Endpoint
    count: Endpoint
    shadow: Endpoint
    attempt: Endpoint
    exchanges: Endpoint

    def resources(self) -> tuple[Resource, Resource]:
        told = Resource(
            name=f"{self.name}_exchanges",
            texts="hook_exchanges",
            position=self.position,
            at=f"{self.at}/exchanges",
            listed=self.exchanges,
            is_log=True,
            columns=(
                when("at", "console.field.happened_at"),
                state("outcome", _OUTCOMES, "console.hook_exchanges.outcome"),
                sentence(_why, "console.hook_exchanges.why"),
                sentence(_kind, "console.hook_exchanges.kind"),
                number("milliseconds", "console.hook_exchanges.milliseconds"),
                code("answered", "console.hook_exchanges.answered"),
            ),
            parameter="question_id",
            called=lambda one: f"{one.at:%Y-%m-%d %H:%M:%S}",
            titled=lambda visit, one: visit.text("console.hook_exchanges.named", called=f"{one.at:%Y-%m-%d %H:%M:%S}"),
            state=(lambda one: one.outcome, _OUTCOMES.__getitem__),
            facts=(
                when("at", "console.field.happened_at"),
                sentence(_why, "console.hook_exchanges.why"),
                sentence(_kind, "console.hook_exchanges.kind"),
                number("milliseconds", "console.hook_exchanges.milliseconds"),
                code("sent", "console.hook_exchanges.sent"),
                code("answered", "console.hook_exchanges.answered"),
                copied("id"),
            ),
            crumbs=lambda visit: ((visit.text("console.hook.title"), visit.here(self.at)),),
        )
        return self._hook(told), told

    def _unasked(self, hook: Any) -> Mapping[str, int]:
        """Nothing for the installation's hook, which is of no organization."""
        return {"listed_only": hook.listed_only, "user_keys": hook.user_keys} if self.get is get_sign_in_hook else {}

    def _hook(self, told: Resource) -> Resource:
        async def latest(visit: PageVisit, hook: Any) -> Mapping[str, Any]:
            return {
                "latest": await latest_of(told, visit),
                "figures": [(label, cell.value) for label, cell in facts_of(_FIGURES, visit, hook) if cell.value],
                "progress": _progress(visit, hook),
                **self._unasked(hook),
                "needs_secret": not hook.has_secret,
                "is_held": hook.is_held,
                "later": _later(hook, visit.text),
            }

        async def beginning(visit: PageVisit) -> Mapping[str, Any]:
            return self._unasked(await visit.ask(self.get))

        return Resource(
            name=self.name,
            texts="hook",
            position=self.position,
            at=self.at,
            is_single=True,
            listed=self.get,
            of_record=lambda hook: None if hook.id is None else hook,
            columns=(
                *_SETTINGS,
                when("since", "console.hook.since"),
                code("digest", "console.hook.digest"),
                when("created_at"),
                when("updated_at"),
            ),
            state=(lambda hook: hook.stands, _STANDS.__getitem__),
            sections=(
                Section(
                    "change",
                    shape(
                        self.change,
                        Asked("address", label="console.hook.address", hint="console.hook.address_hint"),
                        Asked("silence", choices=_silences, label="console.hook.silence", hint="console.hook.silence_hint"),
                        Asked("seconds", label="console.hook.seconds", hint="console.hook.seconds_hint"),
                    ),
                    whole=True,
                    # Undoing would bring back settings without the shadow in which the former ones were seen.
                    undone=False,
                    fixed=lambda hook: {"digest": None if hook is None else hook.digest},
                    secret=_SECRET,
                ),
            ),
            acts=(
                Act(
                    "count",
                    self.count,
                    asks=True,
                    kind="",
                    shows=lambda hook: hook.stands is HookStands.SHADOW and hook.has_secret and hook.report.may_count,
                    facts=(
                        *_SETTINGS,
                        *_FIGURES,
                        when("since", "console.hook.since"),
                        *(_UNASKED if self.get is get_sign_in_hook else ()),
                    ),
                    seen=lambda hook: str(hook.report.digest),
                    later=_later,
                ),
                Act(
                    "try",
                    self.attempt,
                    shows=lambda hook: bool(hook.has_secret),
                    said=lambda tried, text: (tried.success, f"{_answer(tried, text)}, {tried.milliseconds} ms"),
                ),
                Act("shadow", self.shadow, shows=lambda hook: hook.stands is HookStands.COUNTS),
                Act("rotate-secret", self.rotate, asks=True, secret=_SECRET),
            ),
            ending=Ending(self.remove),
            below=(("console.hook_exchanges.title", told.at, self.exchanges),),
            template="organization/hooks/hook.html",
            more=latest,
            beginning=beginning,
            also=(self.exchanges,),
        )


_OF_ORGANIZATION: Final = HookPages(
    name="hook",
    at=organization_tabs.HOOKS,
    position=organization_tabs.position(organization_tabs.SECURITY_ENTRY, organization_tabs.HOOKS_TAB),
    get=get_sign_in_hook,
    change=set_sign_in_hook,
    remove=remove_sign_in_hook,
    rotate=rotate_sign_in_hook_secret,
    count=activate_sign_in_hook,
    shadow=disable_sign_in_hook,
    attempt=test_sign_in_hook,
    exchanges=list_sign_in_hook_exchanges,
)

HOOK, EXCHANGES = _OF_ORGANIZATION.resources()

PAGES: Final = (*pages(HOOK), *pages(EXCHANGES))

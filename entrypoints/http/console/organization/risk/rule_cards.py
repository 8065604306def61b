"""A rule for risk on its card: when it fits, in words, and a bar for each of the last thirty days."""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any, Final

from core.domain.identity.risk_policies.policies import RiskAction
from core.domain.identity.risk_policies.shadow import SPAN
from core.frozen import Frozen
from entrypoints.http.console.kit.forms import Choice
from entrypoints.http.console.kit.visit import PageVisit
from entrypoints.http.routes.tenancy.risk_policies import RiskConditionsBody, RiskPolicyBody, RiskPolicyReport

_HEIGHT: Final = 40
_STEP: Final = 10
_WIDTH: Final = 7
# A day without sign-ins has a bar, too: one sees that it was asked about.
_LOWEST: Final = 1
# What stands between a reader and their own sign-in.
_HINDERS: Final = frozenset({RiskAction.REFUSE, RiskAction.PASSKEY, RiskAction.SECOND_FACTOR})


class DayBars(Frozen):
    """A bar for each day, the oldest first. The highest fills the drawing."""

    path: str
    """All bars as SVG has them: one path, since a page may have twenty rules."""
    first: str
    """The oldest day, in the reader's language."""
    last: str
    width: int
    height: int = _HEIGHT


class RuleCard(Frozen, kw_only=True):
    rule: RiskPolicyBody
    conditions: Sequence[str]
    """In the reader's language."""
    report: RiskPolicyReport | None
    """None for whoever may not read it."""
    bars: DayBars | None
    warns: bool
    """The rule would meet the reader, here and now, and stand in the way."""


def card_of(
    visit: PageVisit,
    rule: RiskPolicyBody,
    choices: Mapping[str, Sequence[Choice]],
    report: RiskPolicyReport | None = None,
    *,
    meets_reader: bool = False,
) -> RuleCard:
    return RuleCard(
        rule=rule,
        conditions=_conditions(visit, rule.when, choices),
        report=report,
        bars=None if report is None else _bars(visit, {one.day: one.count for one in report.days}),
        warns=meets_reader and rule.action in _HINDERS,
    )


def with_others(offered: Sequence[Choice], chosen: Sequence[str]) -> Sequence[Choice]:
    """The choices, and what a rule names that is not among them, since the reader may not see it or it is gone: otherwise a change of
    another field would drop it in silence.
    """
    known = {one.value for one in offered}
    return [*offered, *(Choice(one, one) for one in chosen if one not in known)]


def _bars(visit: PageVisit, counts: Mapping[date, int]) -> DayBars:
    today = visit.postern.foundation.clock.now().date()
    days = [today - timedelta(days=back) for back in range(SPAN.days - 1, -1, -1)]
    most = max((counts.get(day, 0) for day in days), default=0) or 1
    heights = [max(round(_HEIGHT * counts.get(day, 0) / most), _LOWEST) for day in days]
    path = "".join(f"M{number * _STEP} {_HEIGHT}v-{height}h{_WIDTH}v{height}z" for number, height in enumerate(heights))
    return DayBars(path, _named(visit, days[0]), _named(visit, days[-1]), len(days) * _STEP)


def _named(visit: PageVisit, day: date) -> str:
    return f"{day.day} {visit.text(f'console.month.{day.month}')}"


def _conditions(visit: PageVisit, when: RiskConditionsBody, choices: Mapping[str, Sequence[Choice]]) -> Sequence[str]:
    """The conditions that are set, in words. The two hours are one condition."""
    values = {name: getattr(when, name) for name in when.__struct_fields__ if name not in {"from_hour", "until_hour"}}
    said = [_condition(visit, name, value, choices.get(name, ())) for name, value in values.items() if value not in {None, ()}]
    if when.from_hour is not None:
        said.append(visit.text("console.risk.when_hours", begin=when.from_hour, end=when.until_hour))
    return said


def _condition(visit: PageVisit, name: str, value: Any, choices: Sequence[Choice]) -> str:
    if isinstance(value, bool):
        return visit.text(f"console.risk.asks_{name}_{'yes' if value else 'no'}")
    labels = {one.value: one.label for one in choices}
    shown = ", ".join(labels.get(str(one), str(one)) for one in value) if isinstance(value, tuple | list) else value
    return visit.text(f"console.risk.when_{name}", value=shown)

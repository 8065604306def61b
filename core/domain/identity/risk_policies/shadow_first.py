"""Shadow first: a rule counts only after its owners could see whom it meets, as it is and where it stands."""

from collections.abc import Sequence
from datetime import datetime

from core.domain.errors import BadRequest
from core.domain.identity.risk_policies.policies import RiskAction, RiskException, RiskPolicy


def require_shadow_first(before: Sequence[RiskPolicy], after: Sequence[RiskPolicy]) -> None:
    """Raises `BadRequest` for a rule that counts and has not stood in shadow as it is. So does a rule that loses a milder rule before it:
    the people of the milder one would be met by the stricter one, and no report has shown them.
    """
    stood = {one.id: (one.when, one.action) for one in before}
    for place, one in enumerate(after):
        if not one.counts:
            continue
        if stood.get(one.id) != (one.when, one.action):
            message = f"policies[{place}].counts: save the rule in shadow first, and see whom it would have met"
            raise BadRequest(message, words="risk_shadow_first", values={"rule": one.name})
        keep = {kept.id for kept in after[:place] if kept.counts}
        lost = next((milder for milder in _milder_before(before, one) if milder.id not in keep), None)
        if lost is not None:
            message = f"policies[{place}].counts: «{lost.name}» lets people past this rule: save this rule in shadow with the change first"
            raise BadRequest(message, words="risk_widens", values={"rule": one.name, "milder": lost.name})


def _milder_before(policies: Sequence[RiskPolicy], policy: RiskPolicy) -> Sequence[RiskPolicy]:
    """The rules that count, stand before the rule, and do less."""
    place = next(number for number, one in enumerate(policies) if one.id == policy.id)
    return [one for one in policies[:place] if one.counts and policy.action.is_stricter_than(one.action)]


def require_exceptions_kept(
    before: Sequence[RiskException], policies: Sequence[RiskPolicy], exceptions: Sequence[RiskException], now: datetime
) -> None:
    """Raises `BadRequest` when an exception ends early although a rule counts that asks for a factor or refuses: the rule would meet people
    whom no report has shown. An exception that is over may go.
    """
    strict = next((one for one in policies if one.counts and one.action.is_stricter_than(RiskAction.TELL_OWNERS)), None)
    if strict is None:
        return
    until = {(one.kind, one.value): one.ends_at for one in exceptions}
    for one in before:
        end = until.get((one.kind, one.value))
        if one.ends_at > now and (end is None or end < one.ends_at):
            message = (
                f"exceptions: one that ends early lets «{strict.name}» meet people unseen: save the rule in shadow with the change first"
            )
            raise BadRequest(message, words="risk_exception_widens", values={"rule": strict.name})

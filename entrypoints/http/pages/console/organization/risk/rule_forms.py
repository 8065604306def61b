"""The form of a rule for risk: the texts that a browser sends, and the rule that they make."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal
from uuid import uuid4

from core.domain.errors import BadRequest
from core.domain.identity.risk_policies.policies import RiskAction
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.decoding import convert
from entrypoints.http.machinery.errors import NotAsDeclared
from entrypoints.http.pages.console.visit import PageVisit
from entrypoints.http.routes.tenancy.risk.risk_policies import RiskConditionsBody, RiskPolicyBody

Asks = Literal["", "yes", "no"]
"""Whether a condition asks, and for what."""
BOUNDS: Final[Mapping[str, tuple[str, str]]] = {"least_score": ("0.01", "1"), "from_hour": ("0", "23"), "until_hour": ("1", "24")}
# The last step of a place: `policies[3].when.from_hour: …`, `exceptions[0].value: …`.
_FIELD: Final = re.compile(r"[a-z_.]+\[(?P<line>\d+)\](?:\.when)?\.(?P<field>[a-z_]+)")
_DECLARED: Final = re.compile(r"[a-z_]+")


class RiskPolicyForm(BoundForm, frozen=True, kw_only=True):
    name: str = ""
    action: RiskAction = RiskAction.SECOND_FACTOR
    least_score: str = ""
    ways: Sequence[str] = ()
    countries: str = ""
    except_countries: str = ""
    networks: str = ""
    except_networks: str = ""
    new_device: Asks = ""
    impossible_travel: Asks = ""
    from_hour: str = ""
    until_hour: str = ""
    services: Sequence[str] = ()
    roles: Sequence[str] = ()


class ConditionMisfit(Exception):
    """A text of the form that its condition does not take."""

    def __init__(self, field: str) -> None:
        super().__init__(field)
        self.field = field


def policy_of(form: RiskPolicyForm) -> RiskPolicyBody:
    """The rule, in shadow. Raises `ConditionMisfit`."""
    when: dict[str, Any] = {
        "least_score": form.least_score.strip().replace(",", ".") or None,
        "ways": form.ways,
        "countries": _words(form.countries),
        "except_countries": _words(form.except_countries),
        "networks": _words(form.networks),
        "except_networks": _words(form.except_networks),
        "new_device": _asked(form.new_device),
        "impossible_travel": _asked(form.impossible_travel),
        "from_hour": form.from_hour.strip() or None,
        "until_hour": form.until_hour.strip() or None,
        "services": form.services,
        "roles": form.roles,
    }
    try:
        conditions = convert(when, RiskConditionsBody)
    except NotAsDeclared as refusal:
        field = next((one for one in _DECLARED.findall(refusal.message) if one in when), "")
        raise ConditionMisfit(field) from None
    return RiskPolicyBody(id=uuid4(), name=form.name, when=conditions, action=form.action)


def said_misfit(visit: PageVisit, misfit: ConditionMisfit) -> Mapping[str, str]:
    if misfit.field in BOUNDS:
        least, most = BOUNDS[misfit.field]
        return {misfit.field: visit.text("refusals.field_bounds", least=least, most=most)}
    return {misfit.field: visit.text("console.does_not_fit")}


def field_of(refusal: BadRequest) -> tuple[int, str] | None:
    """The line and the field that a refusal is about."""
    found = _FIELD.match(refusal.message)
    return None if found is None else (int(found["line"]), found["field"])


def _asked(value: Asks) -> bool | None:
    return None if not value else value == "yes"


def _words(text: str) -> Sequence[str]:
    return text.replace(",", " ").split()

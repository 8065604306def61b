"""Risk policies in report-only mode: the report of whom they would affect, and when they may be enforced."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Final
from uuid import UUID

from core.domain.errors import BadRequest
from core.domain.identifiers import DeviceId, ServiceId, UserId
from core.domain.identity.devices import Spot
from core.domain.identity.passkeys import KEY_METHODS, PASSKEY_PROVIDER
from core.domain.identity.risk import WEIGHTS, RiskFactor
from core.domain.identity.risk_policies.policies import (
    NO_ROLE,
    RiskAction,
    RiskConditions,
    RiskException,
    RiskPolicies,
    RiskPolicy,
    SignInWay,
)
from core.domain.identity.risk_policies.verdicts import LastSeen, SignInFacts, cannot_have_travelled, deciding, leaves_out, tests_of
from core.domain.identity.sign_in import LINK_PROVIDER, PASSWORD_PROVIDER
from core.frozen import Frozen, replace


def require_shadow_first(before: Sequence[RiskPolicy], after: Sequence[RiskPolicy]) -> None:
    """A policy is enforced only after its owners could see whom it affects, as it is and in its position.

    Raises `BadRequest` for a rule that counts and has not stood in shadow as it is. So does a rule that loses a milder rule before it: the
    people of the milder one would be met by the stricter one, and no report has shown them.
    """
    stood = {one.id: (one.when, one.action) for one in before}
    for place, one in enumerate(after):
        if not one.counts:
            continue
        if stood.get(one.id) != (one.when, one.action):
            message = f"policies[{place}].counts: save the risk policy as report-only first, and check whom it would have affected"
            raise BadRequest(message, words="risk_shadow_first", values={"rule": one.name})
        keep = {kept.id for kept in after[:place] if kept.counts}
        lost = next((milder for milder in _milder_before(before, one) if milder.id not in keep), None)
        if lost is not None:
            message = (
                f"policies[{place}].counts: «{lost.name}» exempts people from this risk policy: save it as report-only with the change "
                "first"
            )
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
                f"exceptions: removing an exception early applies «{strict.name}» to people without a report: save the risk policy as "
                "report-only with the change first"
            )
            raise BadRequest(message, words="risk_exception_widens", values={"rule": strict.name})


_WAYS: Final = {PASSWORD_PROVIDER: SignInWay.PASSWORD, LINK_PROVIDER: SignInWay.LINK, PASSKEY_PROVIDER: SignInWay.PASSKEY}


def way_of(provider: str) -> SignInWay:
    """Names the authentication methods for risk policies.

    Reads the name of a way to sign in, as login events have it. All others are providers and directories.
    """
    return _WAYS.get(provider, SignInWay.PROVIDER)


_KEYS: Final = frozenset(shown[0] for shown in KEY_METHODS.values())


def shows_key(methods: Collection[str]) -> bool:
    """Whether a passkey is among what a session has shown."""
    return not _KEYS.isdisjoint(methods)


def way_by(methods: Collection[str]) -> SignInWay:
    """The way by which a session was opened, as far as its methods say."""
    if shows_key(methods):
        return SignInWay.PASSKEY
    if "pwd" in methods:
        return SignInWay.PASSWORD
    return SignInWay.LINK if "link" in methods else SignInWay.PROVIDER


SPAN: Final = timedelta(days=30)
# The latest people of each rule whom the report names.
MOST_NAMED: Final = 20


class PastSignIn(Frozen):
    """A sign-in of the log. Sign-ins come in the order of time."""

    id: UUID
    user: UserId
    at: datetime
    provider: str
    country: str | None
    address: str | None
    device: DeviceId | None
    new_device: bool
    score: float
    service: ServiceId | None
    spot: Spot | None = None
    goes_on: bool = False
    """It rests on a session that had begun before."""
    is_refused: bool = False
    """A rule refused it. The report counts it, and it makes no device and no place known."""


class PastPerson(Frozen):
    """What the organization knows of the person today. People who are no members have none."""

    role: str
    is_own: bool
    teams: frozenset[UUID]


class MetInShadow(Frozen):
    user: UserId
    at: datetime
    country: str | None
    address: str | None


class PolicyReport(Frozen):
    policy: RiskPolicy
    met: int
    people: int
    days: tuple[tuple[date, int], ...]
    latest: tuple[MetInShadow, ...]
    """The latest sign-in of the people who were met last, the newest first."""
    by_session: int = 0
    """The sign-ins that went on from a session, as far as they led to a service of the rule, and their people have a role of the rule."""


STRANGER: Final = PastPerson(NO_ROLE, is_own=False, teams=frozenset())
"""To an organization, which judges by what it has seen itself."""
ANYBODY_HERE: Final = PastPerson(NO_ROLE, is_own=True, teams=frozenset())
"""To the installation, which has seen all sign-ins."""


class ShadowReport:
    """Evaluates the sign-ins of the last 30 days by the policies as they are now, report-only or enforced. Sign-ins that a policy refused
    are among them: otherwise an enforced policy that refuses would seem to affect nobody.

    Only sign-ins that led to the organization count. Users who only have an unconfirmed tie are judged by what the organization has seen
    itself.

    Policies evaluate a session when it begins. The log of a sign-in that continues a session does not tell its network and method, so the
    report evaluates no such sign-in, and states how many there were. It takes the sign-ins in batches, so that a long log blocks nothing
    else.
    """

    def __init__(self, rules: RiskPolicies, people: Mapping[UserId, PastPerson], now: datetime, stranger: PastPerson = STRANGER) -> None:
        """`stranger` stands for whoever is not among the people."""
        self._rules = rules
        self._people = people
        self._stranger = stranger
        self._decide = deciding(rules.policies)
        self._is_left_out: Callable[[SignInFacts], bool] = leaves_out(rules.exceptions, now)
        self._last: dict[UserId, LastSeen] = {}
        self._devices: set[tuple[UserId, DeviceId]] = set()
        self._countries: dict[UserId, set[str]] = {}
        self._days: dict[UUID, Counter[date]] = {one.id: Counter() for one in rules.policies}
        self._met: dict[UUID, dict[UserId, MetInShadow]] = {one.id: {} for one in rules.policies}
        # What is known of a session's sign-in, whenever and wherever it began.
        self._known = [(one.id, tests_of(RiskConditions(services=one.when.services, roles=one.when.roles))) for one in rules.policies]
        self._by_session: Counter[UUID] = Counter()
        self.judged = 0

    def take(self, sign_ins: Iterable[PastSignIn]) -> None:
        for one in sign_ins:
            facts = self._facts(one)
            if one.goes_on:
                self._count(facts)
                continue
            self.judged += 1
            policy = self._decide(facts)
            if policy is None or self._is_left_out(facts):
                continue
            self._days[policy.id][one.at.date()] += 1
            # The dictionary keeps the order in which people were met last.
            met = self._met[policy.id]
            met.pop(one.user, None)
            met[one.user] = MetInShadow(one.user, one.at, one.country, one.address)

    def _count(self, facts: SignInFacts) -> None:
        if not self._is_left_out(replace(facts, address=None)):
            self._by_session.update(policy for policy, tests in self._known if all(test(facts) for test in tests))

    def _facts(self, one: PastSignIn) -> SignInFacts:
        person = self._people.get(one.user, self._stranger)
        new_device, score = one.new_device, one.score
        if not person.is_own:
            new_device, score = self._as_seen(one)
        last = self._last.get(one.user)
        if (one.country is not None or one.spot is not None) and not one.is_refused:
            self._last[one.user] = LastSeen(one.country, one.spot, one.at)
        return SignInFacts(
            user=one.user,
            teams=person.teams,
            role=person.role,
            score=score,
            way=way_of(one.provider),
            country=one.country,
            address=one.address,
            new_device=new_device,
            impossible_travel=cannot_have_travelled(one.country, one.spot, last, one.at),
            hour=one.at.astimezone(UTC).hour,
            service=one.service,
        )

    def _as_seen(self, one: PastSignIn) -> tuple[bool, float]:
        is_known = one.device is not None and (one.user, one.device) in self._devices
        if one.device is not None and not one.is_refused:
            self._devices.add((one.user, one.device))
        countries = self._countries.setdefault(one.user, set())
        is_elsewhere = one.country is not None and bool(countries) and one.country not in countries
        if one.country is not None and not one.is_refused:
            countries.add(one.country)
        score = (0 if is_known else WEIGHTS[RiskFactor.NEW_DEVICE]) + (WEIGHTS[RiskFactor.UNKNOWN_LOCATION] if is_elsewhere else 0)
        return not is_known, round(score, 2)

    def reports(self) -> Sequence[PolicyReport]:
        """For each policy, in order."""
        return [self._report(one) for one in self._rules.policies]

    def _report(self, policy: RiskPolicy) -> PolicyReport:
        days, met = self._days[policy.id], self._met[policy.id]
        return PolicyReport(
            policy,
            sum(days.values()),
            len(met),
            tuple(sorted(days.items())),
            tuple([*met.values()][: -MOST_NAMED - 1 : -1]),
            self._by_session[policy.id],
        )


class OwnOutcome(Frozen):
    """What the rules would do with a sign-in of the person who looks at them, as they are here now."""

    policy: RiskPolicy
    action: RiskAction


def own_outcome(rules: RiskPolicies, facts: SignInFacts, now: datetime) -> OwnOutcome | None:
    """All rules are asked as if they counted. None when none fits."""
    if leaves_out(rules.exceptions, now)(facts):
        return None
    policy = deciding(rules.policies)(facts)
    return None if policy is None else OwnOutcome(policy, policy.action)

"""Validates risk policies before they are stored. Each refusal names the policy and the field, and states what is wrong."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any, Final
from uuid import UUID

from core.domain.errors import BadRequest
from core.domain.identity.risk_policies.policies import (
    ANYBODY,
    LONGEST_NAME,
    MOST_EXCEPTIONS,
    MOST_NETWORKS,
    MOST_NETWORKS_IN_ALL,
    MOST_POLICIES,
    MOST_SERVICES_IN_ALL,
    NO_ROLE,
    PLATFORM_OWNER_ROLE,
    ExceptionKind,
    RiskAction,
    RiskConditions,
    RiskException,
    RiskPolicy,
)
from core.domain.identity.risk_policies.verdicts import are_parts
from core.domain.lines import typed_line
from core.frozen import replace

# The codes of ISO 3166-1, and XK, which databases of places use for Kosovo.
_CODES: Final = """
    AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ CA CC CD CF CG CH
    CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR GA GB GD GE GF GG GH GI GL GM GN
    GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI
    LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM
    PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD
    TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS XK YE YT ZA ZM ZW
"""
COUNTRIES: Final = frozenset(_CODES.split())
_HOURS: Final = 24


def checked_policies(policies: Sequence[RiskPolicy], *, of_installation: bool = False) -> tuple[RiskPolicy, ...]:
    """The rules as they are kept. Raises `BadRequest`."""
    if len(policies) > MOST_POLICIES:
        raise BadRequest(f"policies: at most {MOST_POLICIES}", words="risk_too_many", values={"most": MOST_POLICIES})
    if sum(len(one.when.networks) + len(one.when.except_networks) for one in policies) > MOST_NETWORKS_IN_ALL:
        message = f"policies: at most {MOST_NETWORKS_IN_ALL} networks in all rules together"
        raise BadRequest(message, words="risk_too_many", values={"most": MOST_NETWORKS_IN_ALL})
    if len({service for one in policies for service in one.when.services}) > MOST_SERVICES_IN_ALL:
        message = f"policies: at most {MOST_SERVICES_IN_ALL} services in all rules together"
        raise BadRequest(message, words="risk_too_many", values={"most": MOST_SERVICES_IN_ALL})
    checked = tuple(_checked(one, place) for place, one in enumerate(policies))
    _require_different(checked)
    if of_installation:
        for place, one in enumerate(checked):
            _require_of_installation(one, f"policies[{place}].when")
    return checked


def _require_of_installation(policy: RiskPolicy, field: str) -> None:
    """The installation knows no application that its rules could name, and one role."""
    if policy.when.services:
        raise _refused(f"{field}.services", "rules of the installation name no application", "risk_no_services", rule=policy.name)
    if not {*policy.when.roles} <= {PLATFORM_OWNER_ROLE, NO_ROLE}:
        message = f"risk policies of the installation support only the roles {PLATFORM_OWNER_ROLE} and {NO_ROLE}"
        raise _refused(f"{field}.roles", message, "risk_no_roles", rule=policy.name)


def checked_exceptions(
    exceptions: Sequence[RiskException], before: Sequence[RiskException], now: datetime, *, of_installation: bool = False
) -> tuple[RiskException, ...]:
    """The exceptions as they are kept. Those that stood before may have ended. Raises `BadRequest`."""
    if len(exceptions) > MOST_EXCEPTIONS:
        raise BadRequest(f"exceptions: at most {MOST_EXCEPTIONS}", words="risk_too_many", values={"most": MOST_EXCEPTIONS})
    for place, one in enumerate(exceptions):
        if of_installation and one.kind is ExceptionKind.TEAM:
            raise _refused(f"exceptions[{place}].kind", "the installation has no teams", "risk_no_teams")
    return tuple(_checked_exception(one, f"exceptions[{place}]", before, now) for place, one in enumerate(exceptions))


def _checked_exception(one: RiskException, field: str, before: Sequence[RiskException], now: datetime) -> RiskException:
    if one.kind is ExceptionKind.NETWORK:
        (network,) = _networks(f"{field}.value", [one.value])
        if ip_network(network).prefixlen == 0:
            raise _refused(f"{field}.value", "excludes everyone", "risk_excepts_everybody")
        one = replace(one, value=network)
    else:
        one = replace(one, value=_id(f"{field}.value", one.value))
    if one.ends_at <= now and one not in before:
        raise _refused(f"{field}.ends_at", "is in the past", "risk_end_past")
    return one


def _id(field: str, value: str) -> str:
    try:
        return str(UUID(value))
    except ValueError:
        raise _refused(field, "must be the id of a person or team", "risk_not_an_id") from None


def require_known_places(before: Sequence[RiskPolicy], after: Sequence[RiskPolicy]) -> None:
    """For an installation without a database of places, where a rule about countries would fit everybody or nobody. Raises `BadRequest` for
    a new one. One that stands may stay as it is: the database may only be away, and whoever changes another rule must not lose it.
    """
    stood = {one.id: _about_places(one) for one in before}
    for place, one in enumerate(after):
        if stood.get(one.id, _ABOUT_NO_PLACE) != _about_places(one) != _ABOUT_NO_PLACE:
            message = "this installation has no location database, so it cannot determine countries"
            raise _refused(f"policies[{place}].when", message, "risk_no_countries", rule=one.name)


def _about_places(policy: RiskPolicy) -> tuple[object, ...]:
    return policy.when.countries, policy.when.except_countries, policy.when.impossible_travel


_ABOUT_NO_PLACE: Final = ((), (), None)


def _checked(policy: RiskPolicy, place: int) -> RiskPolicy:
    field = f"policies[{place}]"
    name = typed_line(f"{field}.name", policy.name)
    if not 0 < len(name) <= LONGEST_NAME:
        raise _refused(f"{field}.name", f"1 to {LONGEST_NAME} characters", "risk_name", most=LONGEST_NAME)
    when = checked_conditions(policy.when, f"{field}.when", name)
    if when == ANYBODY and policy.action is not RiskAction.NOTHING:
        raise _refused(f"{field}.when", "the risk policy applies to everyone: add a condition", "risk_fits_everybody", rule=name)
    return replace(policy, name=name, when=when)


def checked_conditions(when: RiskConditions, field: str, rule: str) -> RiskConditions:
    """The conditions as they are kept. Raises `BadRequest`."""
    if when.least_score is not None and not 0 < when.least_score <= 1:
        raise _refused(f"{field}.least_score", "more than 0, and at most 1", "risk_score", rule=rule)
    _require_hours(when, field, rule)
    networks, but = _networks(f"{field}.networks", when.networks), _networks(f"{field}.except_networks", when.except_networks)
    countries, abroad = _countries(f"{field}.countries", when.countries), _countries(f"{field}.except_countries", when.except_countries)
    if countries and set(countries) <= set(abroad):
        raise _never(f"{field}.countries", rule)
    if networks and are_parts(networks, but):
        raise _never(f"{field}.networks", rule)
    if any(ip_network(one).prefixlen == 0 for one in (*networks, *but)):
        raise _refused(f"{field}.networks", "a network that contains every IP address has no effect", "risk_every_network", rule=rule)
    if countries and abroad:
        # Who is in one of the former is in none of the latter.
        countries, abroad = tuple(one for one in countries if one not in abroad), ()
    return replace(
        when,
        least_score=None if when.least_score is None else round(when.least_score, 2),
        ways=tuple(sorted(set(when.ways))),
        countries=countries,
        except_countries=abroad,
        networks=networks,
        except_networks=but,
        services=tuple(sorted(set(when.services))),
        roles=tuple(sorted(set(when.roles))),
    )


def _require_hours(when: RiskConditions, field: str, rule: str) -> None:
    first, end = when.from_hour, when.until_hour
    if first is None and end is None:
        return
    if first is None or end is None or not 0 <= first < _HOURS or not 0 < end <= _HOURS:
        raise _refused(f"{field}.from_hour", "from_hour is 0 to 23, and until_hour 1 to 24; name both", "risk_hours", rule=rule)
    if first == end:
        raise _never(f"{field}.from_hour", rule)
    if first == 0 and end == _HOURS:
        raise _refused(f"{field}.from_hour", "these are all hours of the day", "risk_all_hours", rule=rule)


def _networks(field: str, texts: Sequence[str]) -> tuple[str, ...]:
    if len(texts) > MOST_NETWORKS:
        raise _refused(field, f"at most {MOST_NETWORKS}", "risk_too_many", most=MOST_NETWORKS)
    return tuple(dict.fromkeys(str(_network(field, text.strip())) for text in texts))


def _network(field: str, text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text)
    except ValueError:
        raise _refused(
            field, f"{text[:60]} is not an IP address or a network, such as 192.0.2.0/24", "risk_network", network=text[:60]
        ) from None


def _countries(field: str, codes: Sequence[str]) -> tuple[str, ...]:
    known = sorted({one.strip().upper() for one in codes})
    for one in known:
        if one not in COUNTRIES:
            raise _refused(
                field, f"{one[:20]} is not a country: use the two letters of ISO 3166, such as DE", "risk_country", country=one[:20]
            )
    return tuple(known)


def _require_different(policies: Sequence[RiskPolicy]) -> None:
    """Of two rules with the same conditions, or after one that fits everybody, the first decides alone."""
    for place, one in enumerate(policies):
        for earlier in policies[:place]:
            if earlier.when in {one.when, ANYBODY}:
                message = (
                    f"«{earlier.name}» comes first and applies to everyone whom this risk policy applies to, so this one never takes effect"
                )
                raise _refused(f"policies[{place}].when", message, "risk_contradiction", rule=one.name, winner=earlier.name)
    ids = [one.id for one in policies]
    if len({*ids}) < len(ids):
        raise BadRequest("policies: two rules have the same id", words="risk_same_id")


def _never(field: str, rule: str) -> BadRequest:
    return _refused(field, "the risk policy can never apply", "risk_never_fits", rule=rule)


def _refused(field: str, message: str, words: str, **values: Any) -> BadRequest:
    shown: Mapping[str, Any] = values
    return BadRequest(f"{field}: {message}", words=words, values=shown)

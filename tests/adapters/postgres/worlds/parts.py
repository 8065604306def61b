"""The parts of a redemption and of an exchange: a comparison shows nothing of a part that no world meets."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from core.domain.claims import NO_PROFILE
from core.domain.federation.oauth.authorization_codes import EarlierUse, Redeemed, Untargeted
from core.domain.identity.refresh_tokens import PresentedRefreshToken
from core.domain.identity.sessions import NO_SUBSCRIPTION
from tests.adapters.postgres.worlds.made import OURS, CodeWorld, TokenWorld, World
from tests.adapters.postgres.worlds.rows import Row

W = TypeVar("W", bound=World)


class Outcome(NamedTuple):
    answer: Any
    written: Counter[str]
    """How many rows of each table are new or changed."""


Part = Callable[[W, Outcome], object]


def _redemption(outcome: Outcome) -> Any:
    return outcome.answer[1] if isinstance(outcome.answer, tuple) else outcome.answer


def _redeemed(holds: Callable[[CodeWorld, Redeemed], object]) -> Part[CodeWorld]:
    def is_met(world: CodeWorld, outcome: Outcome) -> bool:
        answer = _redemption(outcome)
        return isinstance(answer, Redeemed) and bool(holds(world, answer))

    return is_met


def _lacks_scopes(given: Row, answer: Redeemed) -> bool:
    return answer.audience is not None and set(answer.audience.scopes) < set(given["scopes"])


def _redeemed_with(table: str) -> Part[CodeWorld]:
    return lambda _, outcome: isinstance(_redemption(outcome), Redeemed) and outcome.written[table] > 0


# The outcomes and the rare parts of a redemption. `contended` needs somebody else.
OF_REDEMPTION: Final[Mapping[str, Part[CodeWorld]]] = {
    "redeemed": _redeemed(lambda *_: True),
    "redeemed by a secret": lambda _, outcome: isinstance(outcome.answer, tuple) and isinstance(outcome.answer[1], Redeemed),
    "refused": lambda _, outcome: _redemption(outcome) is None,
    "no such client": lambda _, outcome: outcome.answer == (None, None),
    "redeemed earlier": lambda _, outcome: isinstance(_redemption(outcome), EarlierUse),
    "untargeted": lambda _, outcome: isinstance(_redemption(outcome), Untargeted),
    "an agent": _redeemed(lambda world, _: world.service["is_agent"]),
    "APIs": _redeemed(lambda world, _: world.granted),
    "one of several APIs": _redeemed(lambda world, answer: len(world.granted) > 1 and answer.audience is not None),
    "fewer scopes of an API": _redeemed(
        lambda world, answer: (
            answer.audience is not None and len(world.granted) == 1 and set(answer.audience.scopes) < {*world.granted[0]["scopes"]}
        )
    ),
    "members": _redeemed(lambda world, _: world.service["sign_in_policy"] == "members"),
    "a role": _redeemed(lambda world, _: world.service["sign_in_policy"] == "assigned"),
    "a tie that does not count": _redeemed(lambda world, answer: world.membership is not None and answer.role == ""),
    "trust": _redeemed(lambda world, _: world.consent is None),
    "terms": _redeemed(lambda world, _: world.organization["asks_terms"]),
    "a bound code": _redeemed(lambda world, _: world.code["key_thumbprint"]),
    "a session that is bound alone": _redeemed(lambda world, _: world.key and not world.code["key_thumbprint"]),
    "without a challenge": _redeemed(lambda world, _: world.code["code_challenge"] is None),
    "a session of its own": _redeemed(lambda _, answer: answer.session.parent is None),
    "a session that ends with the browser's": _redeemed(lambda world, answer: answer.session.ends_at == world.parent["ends_at"]),
    "a session that rests as the browser's": _redeemed(lambda world, answer: answer.session.expires_at == world.parent["expires_at"]),
    "the sign-in is logged": _redeemed_with("login_events"),
    "the sign-in is logged already": _redeemed(lambda world, _: world.code["provider"] == ""),
    "the sign-in is exported": _redeemed_with("sign_in_pending"),
    "a webhook is told": _redeemed_with("webhook_deliveries"),
    "an account is held": _redeemed_with("held_accounts"),
    "a new user of the service": _redeemed_with("service_user_marks"),
    "an older session is displaced": _redeemed_with("jobs"),
    "a subscription": _redeemed(lambda _, answer: answer.subscription != NO_SUBSCRIPTION),
    "a profile": _redeemed(lambda _, answer: answer.profile != NO_PROFILE),
    "a directory": _redeemed(lambda _, answer: answer.session.directory_context),
    "further facts": _redeemed(lambda _, answer: answer.tells_more),
    "an address of the organization's voucher": _redeemed(
        lambda world, answer: answer.email_is_verified and world.person["email_verified_at"] is None
    ),
    "a proxy": lambda world, outcome: world.service["service_type"] == "proxy" and _redemption(outcome) is None,
    "FAPI": lambda world, outcome: world.service["profile"] == "fapi2" and _redemption(outcome) is None,
}


def _rotated(holds: Callable[[TokenWorld, PresentedRefreshToken], object]) -> Part[TokenWorld]:
    return lambda world, outcome: outcome.answer is not None and outcome.answer.rotated and bool(holds(world, outcome.answer))


def _demanded(column: str) -> Part[TokenWorld]:
    return _rotated(lambda world, _: world.kind != "account" and world.membership and world.organization[column])


def _kept(holds: Callable[[PresentedRefreshToken], object]) -> Part[TokenWorld]:
    return lambda _, outcome: outcome.answer is not None and not outcome.answer.rotated and bool(holds(outcome.answer))


# The outcomes and the rare parts of an exchange.
OF_EXCHANGE: Final[Mapping[str, Part[TokenWorld]]] = {
    "rotated": _rotated(lambda *_: True),
    "unknown": lambda _, outcome: outcome.answer is None,
    "rotated earlier": _kept(lambda answer: answer.rotated_at is not None),
    "ended": _kept(lambda answer: not answer.is_live),
    "not admitted": _kept(lambda answer: answer.is_live and answer.session.context.organization is not None and not answer.is_admitted),
    "not active": _kept(lambda answer: answer.is_live and answer.session.context.organization and not answer.organization_is_active),
    "owes a second factor": _kept(lambda answer: answer.is_live and answer.owes_second_factor),
    "owes terms": _kept(lambda answer: answer.is_live and answer.owes_terms),
    "agents are forbidden": _kept(lambda answer: answer.agents_are_forbidden),
    "asks too much": _kept(
        lambda answer: (
            answer.is_live
            and answer.is_admitted
            and answer.organization_is_active
            and answer.rotated_at is None
            and not answer.owes_second_factor
            and not answer.owes_terms
        )
    ),
    "of a client": _rotated(lambda world, _: world.kind == "client"),
    "of an application": _rotated(lambda world, _: world.kind == "application"),
    "of an organization": _rotated(lambda world, _: world.kind == "organization"),
    "of an account": _rotated(lambda world, _: world.kind == "account"),
    "an agent": _rotated(lambda _, answer: answer.is_agent),
    "APIs": _rotated(lambda _, answer: answer.audiences.granted),
    "scopes of an API": _rotated(lambda world, _: world.asks["foreign_scopes"]),
    "fewer scopes": _rotated(lambda world, _: world.asks["scopes"]),
    "a role": _rotated(lambda world, _: world.kind == "client" and world.service["sign_in_policy"] == "assigned"),
    "terms": _rotated(lambda world, _: world.kind != "account" and world.organization["asks_terms"]),
    "a demand for second factors": _rotated(
        lambda world, _: (
            world.kind != "account"
            and world.membership
            and (world.organization["mfa_required_since"] or world.organization["admin_factor"])
        )
    ),
    "a demand for passkeys": _rotated(lambda world, _: world.kind != "account" and world.membership and world.organization["all_factor"]),
    "in another's name": _rotated(lambda _, answer: answer.session.impersonated),
    "a bound token": _rotated(lambda world, _: world.session["key_thumbprint"]),
    "a token of another key": _rotated(lambda world, _: world.session["key_thumbprint"] and world.asks["key"] != OURS),
    "a token that stays": _rotated(lambda _, answer: answer.stays),
    "a session below others": _rotated(lambda world, _: world.session["depth"] > 1),
    "a line": lambda _, outcome: outcome.written["sessions"] > 1,
    "a subscription": _rotated(lambda _, answer: answer.subscription != NO_SUBSCRIPTION),
    "a profile": _rotated(lambda _, answer: answer.profile != NO_PROFILE),
    "a directory": _rotated(lambda _, answer: answer.session.directory_context),
    "further facts": _rotated(lambda _, answer: answer.tells_more),
}

"""The people who may sign in to a service: all statements decide by one SQL fragment, which agrees with the domain's rule."""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Final

import psycopg
import pytest

import adapters.postgres
from adapters.postgres.federation.authorizations import PostgresAuthorizationContexts
from adapters.postgres.federation.given_sessions import PostgresGivenSessions
from adapters.postgres.identity.proofs.sign_in_policy import admits
from adapters.postgres.identity.sessions.refresh_tokens import PostgresRefreshTokens
from adapters.postgres.tenancy.callers import PostgresCallers
from core.domain.errors import Forbidden
from core.domain.federation.oauth.authorization_steps import AuthorizationStep, Progress, next_step, require_open
from core.domain.federation.oauth.authorizations import AuthorizationRequest, Recipient
from core.domain.federation.oauth.resources import OPENID
from core.domain.identity.callers import Caller, require_admitted
from core.domain.identity.refresh_tokens import Holder, RefreshOutcome, refresh_outcome
from core.domain.identity.sign_in import LastLook, open_context
from core.domain.mail import Email
from core.domain.record.events import SYSTEM
from core.domain.services.services import SignInPolicy
from core.domain.tenancy.sign_in_rules import grace_is_over
from tests.adapters.postgres.conftest import Store
from tests.adapters.postgres.visits import (
    ACME,
    ADA,
    APP,
    BROWSER,
    BY,
    CALLBACK,
    CLIENT,
    GIVEN,
    SECRET,
    SUCCESSOR,
    TOKEN,
    WORLD,
    Case,
    arrange,
    enter,
    redeem,
)

HOLDER: Final = Holder(CLIENT, APP)


def conditions(case: Case) -> Mapping[str, bool]:
    """All that may keep somebody out, in the words of the domain. People here have no second factor."""
    now = datetime.now(UTC)
    due = now if case.asks_second_factor and case.membership else None
    return {
        "policy": case.policy.admits(is_member=bool(case.membership), is_assigned=is_assigned(case)),
        "organization": case.organization_is_active,
        "account": case.account_is_active,
        "second factor": not grace_is_over(due, now),
    }


def is_assigned(case: Case) -> bool:
    """Only members have roles of the organization, and are in its teams."""
    return case.assigned == "person" or (bool(case.membership) and case.assigned not in {"", "everybody"})


CASES: Final = [
    *(
        Case(policy, membership, "", *rest)
        for policy, membership, *rest in product(SignInPolicy, ("", "listed", "own"), (True, False), (True, False), (True, False))
    ),
    *(Case(policy, "", "person") for policy in SignInPolicy),
    *(Case(SignInPolicy.ASSIGNED, "listed", "person", *rest) for rest in product((True, False), repeat=3)),
    *(Case(SignInPolicy.ASSIGNED, "own", by) for by in ("built-in", "own", "team", "carries", "everybody")),
    *(Case(SignInPolicy.ASSIGNED, "", by) for by in ("built-in", "everybody")),
]


async def _confirms(store: Store) -> bool:
    """The last look before a session."""
    async with store.unit_of_work() as uow:
        confirmed = await uow.sign_ins.confirm(LastLook(user=ADA, service=APP))
    return confirmed is not None and _is_quiet(lambda: open_context(confirmed.destination))


async def _calls(store: Store) -> bool:
    """Each request in the service. The organization is looked at apart: some may be made while it is suspended."""
    caller = await PostgresCallers(store.pool).find_in_service(GIVEN, ADA)
    if caller is None:
        return False
    return _is_quiet(lambda: require_admitted(is_admitted=caller.is_admitted, owes_second_factor=caller.owes_second_factor))


async def _refreshes(store: Store) -> bool:
    presented = await PostgresRefreshTokens(store.pool).rotate(TOKEN, SUCCESSOR, BY, datetime.now(UTC), HOLDER)
    assert presented is not None
    return refresh_outcome(presented, BY, datetime.now(UTC), HOLDER) is RefreshOutcome.GRANTED


async def _is_told_of(store: Store) -> bool:
    """An application asks about an access token of its own. Whether its organization is active is asked of the application."""
    found = await PostgresGivenSessions(store.pool).find(CLIENT, SECRET, GIVEN, ADA)
    return found is not None and found[1] is not None


async def _is_told_of_refresh_token(store: Store) -> bool:
    given = await PostgresGivenSessions(store.pool).find_by_refresh_token(TOKEN)
    return given is not None and given.is_open


async def _is_asked_nothing(store: Store) -> bool:
    """A request for a code, from a browser that has just been looked up with its account."""
    caller = Caller(ADA, Email("ada@example.org"), BROWSER, is_platform_owner=False)
    authorization_context = await PostgresAuthorizationContexts(store.pool).find(CLIENT, caller)
    assert authorization_context is not None
    request = AuthorizationRequest(client_id=CLIENT, recipient=Recipient(CALLBACK), scopes=(OPENID,))
    progress = Progress(asked_membership=True)
    step = next_step(request, authorization_context.application, authorization_context.signed_in, progress, datetime.now(UTC))
    return step is AuthorizationStep.DONE and _is_quiet(lambda: require_open(request, authorization_context.application))


async def _redeems(store: Store) -> bool:
    """The second factor was asked for before the code was made."""
    return await redeem(store, SYSTEM)


async def _enters_by_saml(store: Store) -> bool:
    """The second factor was asked for before."""
    return await enter(store, SYSTEM)


async def _outlasts_membership(store: Store) -> bool:
    """The session of an application of whose organization the person is no member any more."""
    async with store.unit_of_work() as uow:
        await uow.members.remove(ACME, ADA)
        await uow.commit()
    (row,) = await store.query("select revoked_at from sessions where id = %(id)s", {"id": GIVEN})
    return row["revoked_at"] is None


def _is_quiet(look: Callable[[], object]) -> bool:
    try:
        look()
    except Forbidden:
        return False
    return True


# Each statement that decides, and what it decides by. It leaves the rest to somebody who has just looked, or will.
LOOKS: Final[Mapping[Callable[[Store], Awaitable[bool]], frozenset[str]]] = {
    _confirms: frozenset({"policy", "organization", "account", "second factor"}),
    _calls: frozenset({"policy", "account", "second factor"}),
    _refreshes: frozenset({"policy", "organization", "account", "second factor"}),
    _is_told_of: frozenset({"policy", "account", "second factor"}),
    _is_told_of_refresh_token: frozenset({"policy", "account", "second factor"}),
    _is_asked_nothing: frozenset({"policy", "organization", "second factor"}),
    _redeems: frozenset({"policy", "organization", "account"}),
    _enters_by_saml: frozenset({"policy", "organization", "account"}),
}


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.__name__.strip("_"))
async def test_a_statement_admits_those_whom_the_domain_admits(store: Store, look: Callable[[Store], Awaitable[bool]]) -> None:
    faults = []
    with psycopg.connect(store.url, autocommit=True) as connection:
        connection.execute(WORLD.encode())
        for case in CASES:
            arrange(connection, case)
            holds = conditions(case)
            if await look(store) is not all(holds[name] for name in LOOKS[look]):
                faults.append(case)
    assert faults == []


@pytest.mark.parametrize("policy", SignInPolicy)
async def test_a_session_outlasts_the_membership_where_the_domain_admits_strangers(store: Store, policy: SignInPolicy) -> None:
    with psycopg.connect(store.url, autocommit=True) as connection:
        connection.execute(WORLD.encode())
        arrange(connection, Case(policy, "own"))
    assert await _outlasts_membership(store) is policy.admits(is_member=False, is_assigned=False)


# The column's name in a text of ours, and why it stands there. What decides includes the fragment, and says nothing else of the column.
_KEEPS_OR_TELLS: Final = {
    "adapters/postgres/federation/authorizations.py": "the domain decides what is left to do for a request",
    "adapters/postgres/federation/facts.py": "a preview names the rule, and the fragment decides",
    "adapters/postgres/identity/proofs/flows.py": "the domain decides whether an account that somebody registers gets in",
    "adapters/postgres/identity/proofs/sign_in.py": "the last look holds the service's row, and decides of that by the fragment",
    "adapters/postgres/tenancy/callers.py": "the look at a caller reads the service's row once, and decides of that by the fragment",
    "adapters/postgres/tables/services.py": "it says nothing of a person",
    "adapters/postgres/identity/proofs/sign_in_policy.py": "the fragment",
}
_COMPARED: Final = re.compile(r"sign_in_policy\s*(?:=\s*'|<>|!=|is\s|in\s*\(|~|like|when\s)|'(?:anyone|members|assigned)'", re.IGNORECASE)


def _sources() -> Iterator[tuple[str, str]]:
    (folder,) = adapters.postgres.__path__
    for file in Path(folder).rglob("*.py"):
        yield f"adapters/postgres/{file.relative_to(folder).as_posix()}", file.read_text()


def test_no_statement_decides_it_by_itself() -> None:
    told = {name for name, text in _sources() if "sign_in_policy" in text.replace("identity.proofs.sign_in_policy", "")}
    assert told == set(_KEEPS_OR_TELLS)
    decided = {name for name, text in _sources() if _COMPARED.search(text)}
    assert decided == {"adapters/postgres/identity/proofs/sign_in_policy.py"}
    assert _COMPARED.search(admits("false", "null"))
    assert not _COMPARED.search("update services set sign_in_policy = %(sign_in_policy)s")

"""Runs: when one stops, which one comes next, and what an owner's word is about."""

from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import pytest

from core.domain.errors import BadRequest, Conflict
from core.domain.federation.directory_runs import runs
from core.domain.federation.directory_runs.people import PersonDecision, PersonFate, ReasonForEnd, WhyLeftOut
from core.domain.federation.directory_runs.runs import (
    MOST_LEFT_OUT_SHOWN,
    PLAN_LASTS,
    DirectoryRun,
    DirectoryStep,
    RunKind,
    RunState,
    RunTally,
    agreed,
    begun,
    digest_of_ends,
    end_of,
    left,
    must_stop,
    next_kind,
    parts,
    require_kept_in_step,
)
from core.domain.identifiers import DirectoryRunId, UpstreamProviderId, UserId
from core.domain.identity.upstream.connections import ProviderKind
from core.domain.identity.upstream.ldap.settings import LdapSettings
from core.domain.identity.upstream.ldap.surveys import LdapMarks
from core.domain.tenancy.upstream_providers import UpstreamProvider
from core.frozen import replace
from tests.domain.federation.directory_runs.test_people import ACME, NOW, person

CONNECTION: Final = UpstreamProviderId(UUID(int=7))
PROVIDER: Final = UpstreamProvider(
    id=CONNECTION,
    organization=ACME,
    kind=ProviderKind.LDAP,
    name="Directory",
    issuer="",
    client_id="",
    scopes=(),
    enabled=True,
    ldap=LdapSettings(keeps_in_step=True),
    created_at=NOW,
    updated_at=NOW,
)
RUN: Final = DirectoryRun(
    id=DirectoryRunId(UUID(int=8)),
    organization=ACME,
    connection=CONNECTION,
    kind=RunKind.PLAN,
    state=RunState.WAITING,
    started_at=NOW,
    settings_digest=PROVIDER.digest,
    digest=b"d" * 32,
)


def step(**more: Any) -> DirectoryStep:
    given: dict[str, Any] = {
        "connection": CONNECTION,
        "organization": ACME,
        "holder": UUID(int=9),
        "runs": 1,
        "wants_whole": False,
        "whole_at": NOW,
        "marks": LdapMarks("a", 1, None),
        "agreed_digest": b"settings",
        "agreed_run": None,
        "held_digest": None,
        "held_since": None,
    }
    return DirectoryStep(**{**given, **more})


@pytest.mark.parametrize(
    ("ending", "lately", "listed", "stops"),
    [
        (0, 100, 100, False),
        (5, 0, 20, False),
        (6, 0, 20, True),
        (1, 5, 15, True),
        (10, 0, 100, False),
        (11, 0, 100, True),
        (5, 6, 94, True),
        (2, 0, 2, True),
        (1, 0, 1, False),
    ],
)
def test_a_run_stops_at_more_than_a_tenth_or_five_within_a_day(ending: int, lately: int, listed: int, *, stops: bool) -> None:
    assert must_stop(ending, lately, listed) is stops


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, RunKind.CHANGES),
        ({"runs": 3}, RunKind.IDENTITIES),
        ({"runs": 7}, RunKind.IDENTITIES),
        ({"wants_whole": True}, RunKind.WHOLE),
        ({"agreed_run": RUN.id}, RunKind.WHOLE),
        ({"whole_at": None}, RunKind.WHOLE),
        ({"marks": None}, RunKind.WHOLE),
        ({"whole_at": NOW - timedelta(days=1)}, RunKind.WHOLE),
        ({"agreed_digest": None}, RunKind.PLAN),
        ({"agreed_digest": b"others"}, RunKind.PLAN),
    ],
)
def test_which_run_comes_next(changes: dict[str, Any], kind: RunKind) -> None:
    assert next_kind(step(**changes), b"settings", NOW) is kind
    assert begun(step(**changes), RUN.id, b"settings", NOW).kind is kind
    assert kind.finds_gone is (kind is not RunKind.CHANGES)


def test_an_owner_lets_go_on_what_they_have_seen() -> None:
    assert agreed(RUN, PROVIDER, RUN.digest.hex() if RUN.digest else "", NOW).state is RunState.AGREED
    assert left(RUN).state is RunState.LEFT


def test_nobody_lets_go_on_what_they_have_not_seen() -> None:
    seen = (b"d" * 32).hex()
    with pytest.raises(BadRequest):
        agreed(RUN, PROVIDER, "no digest", NOW)
    with pytest.raises(Conflict):
        agreed(RUN, PROVIDER, "0" * 64, NOW)
    with pytest.raises(Conflict):
        agreed(RUN, replace(PROVIDER, ldap=LdapSettings(keeps_in_step=True, base_dn="dc=other")), seen, NOW)
    with pytest.raises(Conflict):
        agreed(RUN, PROVIDER, seen, NOW + PLAN_LASTS + timedelta(seconds=1))
    with pytest.raises(Conflict):
        agreed(replace(RUN, state=RunState.OVER), PROVIDER, seen, NOW)
    with pytest.raises(Conflict):
        left(replace(RUN, state=RunState.DONE))


def test_nothing_runs_where_nobody_keeps_in_step() -> None:
    require_kept_in_step(PROVIDER)
    for provider in (
        replace(PROVIDER, enabled=False),
        replace(PROVIDER, ldap=LdapSettings()),
        replace(PROVIDER, ldap=None),
    ):
        with pytest.raises(BadRequest):
            require_kept_in_step(provider)


def test_an_owner_is_asked_once_a_day_and_never_again_about_what_they_have_left() -> None:
    asked = step(held_digest=b"d", held_since=NOW)
    assert asked.has_asked(b"d", NOW)
    assert not asked.has_asked(b"e", NOW)
    assert not asked.has_asked(b"d", NOW + PLAN_LASTS + timedelta(seconds=1))
    assert step(held_digest=b"d").has_asked(b"d", NOW + timedelta(days=30))


def test_the_digest_is_of_names_and_what_happens() -> None:
    ada = end_of(b"ada", UserId(UUID(int=1)), "ada@example.org", ReasonForEnd.GONE)
    bob = end_of(b"bob", UserId(UUID(int=2)), "bob@example.org", ReasonForEnd.DISABLED)
    assert digest_of_ends([ada, bob]) == digest_of_ends([bob, ada])
    assert digest_of_ends([ada]) != digest_of_ends([ada, bob])
    assert digest_of_ends([ada]) != digest_of_ends([replace(ada, reason="disabled")])
    one, other = RunTally(), RunTally()
    one.note(PersonDecision(person=person("ada"), fate=PersonFate.COMES))
    other.note(PersonDecision(person=person("bob"), fate=PersonFate.COMES))
    assert one.digest([ada]) != other.digest([ada])


def test_a_tally_counts_everybody_and_names_some() -> None:
    tally = RunTally()
    for number in range(MOST_LEFT_OUT_SHOWN + 1):
        tally.leave_out(f"person {number}", WhyLeftOut.NO_ADDRESS)
    for fate in (PersonFate.COMES, PersonFate.RETURNS, PersonFate.CHANGES, PersonFate.STAYS):
        tally.note(PersonDecision(person=person(), fate=fate))
    tally.note(PersonDecision(person=person(), fate=PersonFate.STAYS, left_out=WhyLeftOut.TWICE))
    counts = tally.counts
    assert (counts.came, counts.changed, counts.left_out) == (2, 1, MOST_LEFT_OUT_SHOWN + 2)
    assert counts.reasons == {"no_address": MOST_LEFT_OUT_SHOWN + 1, "twice": 1}
    assert len(tally.left_out) == MOST_LEFT_OUT_SHOWN


def test_a_tally_keeps_only_so_many_for_an_owner_and_counts_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "MOST_OPEN", 2)
    tally = RunTally()
    for number in range(3):
        tally.leave_out(f"person {number}", WhyLeftOut.MAY_MORE, UserId(UUID(int=number)), b"1")
    assert (tally.counts.reasons, [one.named for one in tally.open]) == ({"may_more": 3}, ["person 0", "person 1"])


def test_parts_are_of_one_size() -> None:
    assert list(parts([b"1", b"2", b"3"], 2)) == [[b"1", b"2"], [b"3"]]

"""The plan, as a pure function: properties that hold for every document and every installation. `DOCUMENT_EXAMPLES=10000` tries many."""

import os
from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as some

from core.domain.platform.configuration.objects import ORGANIZATION, SERVICE, ObjectPlace, organization_place
from core.domain.platform.configuration.planning import (
    Change,
    DocumentPlan,
    KindRules,
    PlannedAction,
    Present,
    Problem,
    WantedConfiguration,
    WantedObject,
    plan,
    same,
)
from entrypoints.http.routes.configuration.exporting import tree
from entrypoints.http.routes.configuration.kinds import Within
from entrypoints.http.routes.configuration.reading import read
from entrypoints.http.routes.configuration.registry import BY_ID, KINDS, RULES

EXAMPLES = int(os.environ.get("DOCUMENT_EXAMPLES", "50"))
ORGANIZATIONS, SERVICES, NAMES = ("acme", "beta"), ("shop", "app"), ("a", "b")
_POWERS = ("end_users.view", "services.view")
_PRICES = {"price_cents": some.integers(0, 2), "currency": some.sampled_from(("eur", "EUR"))}
_VALUES: Mapping[str, some.SearchStrategy[Any]] = {
    "organization": some.fixed_dictionaries({}, optional={"name": some.sampled_from(("One", "Two")), "metadata": some.just({"a": True})}),
    "sign_in_rules": some.fixed_dictionaries({}, optional={"device_trust_days": some.integers(0, 3), "sign_in_links": some.booleans()}),
    "roles": some.fixed_dictionaries(
        {"name": some.sampled_from(("R", "S")), "permissions": some.lists(some.sampled_from(_POWERS), unique=True)}
    ),
    "teams": some.fixed_dictionaries({"name": some.just("T")}, optional={"role": some.sampled_from(("a", "b", None))}),
    "profile_fields": some.fixed_dictionaries({"label": some.sampled_from(("L", "M")), "kind": some.just("text")}),
    "mail_server": some.one_of(
        some.none(),
        some.fixed_dictionaries(
            {"host": some.sampled_from(("one.example", "two.example")), "port": some.just(587), "username": some.just("u"),
             "from_email": some.just("a@b.example"), "password": some.sampled_from(("env:A", "env:B"))}
        ),
    ),
    "services": some.fixed_dictionaries(
        {"name": some.sampled_from(("S", "T")), "service_type": some.just("web")}, optional={"trusted": some.booleans()}
    ),
    "plans": some.fixed_dictionaries({"name": some.just("P"), **_PRICES}),
    "permissions": some.fixed_dictionaries({}, optional={"description": some.sampled_from(("", "D"))}),
    "claims": some.fixed_dictionaries(
        {"source": some.just("constant"), "argument": some.sampled_from((1, True, "x")), "into": some.just(["id_token"])}
    ),
}  # fmt: skip


def collections(names: tuple[str, ...], inner: some.SearchStrategy[Any]) -> some.SearchStrategy[Any]:
    entries = some.dictionaries(some.sampled_from(names), inner, max_size=len(names))
    return some.one_of(entries, entries.map(lambda one: {"whole": True, "entries": one}))


def holders(place: Within) -> some.SearchStrategy[Any]:
    kinds = [kind for kind in KINDS if kind.within is place and kind.name in _VALUES and not kind.is_holder and not kind.stored_as]
    return some.fixed_dictionaries(
        {}, optional={kind.name: _VALUES[kind.name] if kind.is_single else collections(NAMES, _VALUES[kind.name]) for kind in kinds}
    )


service = some.builds(lambda own, held: {**own, **held}, _VALUES["services"], holders(Within.SERVICE))
organization = some.builds(
    lambda own, held, services: {**own, **held, **({} if services is None else {"services": services})},
    _VALUES["organization"],
    holders(Within.ORGANIZATION),
    some.one_of(some.none(), collections(SERVICES, service)),
)
trees = some.dictionaries(some.sampled_from(ORGANIZATIONS), organization, max_size=2).map(
    lambda held: {"postern": 1, "organizations": held}
)
EMPTY: Mapping[ObjectPlace, Present] = {
    organization_place(slug): Present(fields={"name": "Founded", "metadata": {}}, id=slug) for slug in ORGANIZATIONS
}


def wanted(document: Any) -> WantedConfiguration:
    def resolve(_steps: tuple[str, ...], value: Any) -> Any:
        if not isinstance(value, str):
            raise LookupError  # noqa: TRY004 - as `Resolve` has it
        return value

    made = read(document, resolve)
    assert made.problems == ()
    return made.wanted


def planned(present: Mapping[ObjectPlace, Present], document: Any) -> DocumentPlan:
    return plan(RULES, present, wanted(document))


def carried_out(present: Mapping[ObjectPlace, Present], document: Any) -> Mapping[ObjectPlace, Present]:
    """What is there when all changes were made. What the installation fills in is filled in here, too."""
    now, made = dict(present), planned(present, document)
    assert made.problems == ()
    for change in made.changes:
        now = _done(now, change)
    return now


def _done(present: dict[ObjectPlace, Present], change: Change) -> dict[ObjectPlace, Present]:
    place, kind = change.place, BY_ID[change.place.kind]
    if change.act is PlannedAction.END:
        return {
            other: one
            for other, one in present.items()
            if other != place and not (place.kind == SERVICE and other[:2] == (place.organization, place.name))
        }
    before = present.get(place)
    fields = {**(kind.standing or {}), **({} if before is None else before.fields)}
    fields |= {one.name: one.after for one in change.fields if not one.is_secret}
    present = {**present, place: Present(fields=fields, id="made")}
    if before is None:
        for (other, name), brought in kind.brings.items():
            present.setdefault(ObjectPlace(place.organization, place.name, other, name), Present(fields=brought, id="brought"))
    return present


def besides_secrets(made: DocumentPlan) -> list[Change]:
    """The changes that do more than set secrets anew."""
    return [one for one in made.changes if not one.only_sets_secrets]


def reversed_maps(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: reversed_maps(value[name]) for name in reversed(value)}
    return value


@given(trees)
@settings(max_examples=EXAMPLES, deadline=None)
def test_twice_is_once_and_the_order_of_a_document_means_nothing(document: Any) -> None:
    first = planned(EMPTY, document)
    if first.problems:
        assert planned(EMPTY, reversed_maps(document)).problems == first.problems
        return
    assert planned(EMPTY, reversed_maps(document)) == first
    once = carried_out(EMPTY, document)
    assert besides_secrets(planned(once, document)) == []
    assert carried_out(once, document) == once


@given(trees, trees)
@settings(max_examples=EXAMPLES, deadline=None)
def test_whatever_was_there_the_plan_of_an_applied_document_is_empty(before: Any, document: Any) -> None:
    if planned(EMPTY, before).problems or planned(carried_out(EMPTY, before), document).problems:
        return
    now = carried_out(carried_out(EMPTY, before), document)
    assert besides_secrets(planned(now, document)) == []


@given(trees)
@settings(max_examples=EXAMPLES, deadline=None)
def test_the_plan_of_an_export_is_empty_and_an_export_makes_the_same_again(document: Any) -> None:
    if planned(EMPTY, document).problems:
        return
    now = {place: Present(fields=one.fields, id=one.id) for place, one in carried_out(EMPTY, document).items()}
    seen = {(place.organization, place.kind): True for place in now}
    export = tree(now, seen, ORGANIZATIONS, with_platform=False)
    assert (planned(now, export).changes, planned(now, export).problems) == ((), ())
    again = planned(EMPTY, export)
    # An object that needs a secret cannot be made without it: no document carries it.
    assert {one.steps[-1] for one in again.problems} <= {"password"}
    if not again.problems:
        second = carried_out(EMPTY, export)
        assert tree(second, {(place.organization, place.kind): True for place in second}, ORGANIZATIONS, with_platform=False) == export


def test_equal_in_json_is_not_equal_in_python() -> None:
    assert not same(True, 1)
    assert not same([0], [False])
    assert same({"a": [1, {"b": None}]}, {"a": (1, {"b": None})})
    assert not same({"a": 1}, {"a": 1, "b": 1})
    assert same(1, 1.0)
    assert not same("1", 1)


def test_what_names_another_comes_after_it_and_ends_come_last() -> None:
    acme = {
        "teams": {"t": {"name": "T", "role": "r"}},
        "roles": {"r": {"name": "R", "permissions": []}},
        "webhooks": {"whole": True, "entries": None},
    }
    present = {**EMPTY, ObjectPlace("acme", "", "webhooks", "old"): Present(fields={}, id="7", people=3)}
    made = planned(present, {"postern": 1, "organizations": {"acme": acme}})
    assert [(one.act, one.place.kind, one.place.name) for one in made.changes] == [
        (PlannedAction.MAKE, "roles", "r"),
        (PlannedAction.MAKE, "teams", "t"),
        (PlannedAction.END, "webhooks", "old"),
    ]
    assert (made.ends[0].id, made.ends[0].people) == ("7", 3)


def test_faults_are_told_with_their_places() -> None:
    present = {
        **EMPTY,
        ObjectPlace("acme", "", "profile_fields", "f"): Present(fields={"kind": "text", "label": "F"}),
        ObjectPlace("acme", "", "mail_server", ""): Present(fields={"host": "a.example"}),
        ObjectPlace("acme", "", "teams", "theirs"): Present(fields={"name": "T"}, is_directorys=True),
    }
    acme = {
        "profile_fields": {"f": {"kind": "number"}, "g": {"kind": "text"}},
        "mail_server": {"host": "b.example"},
        "services": {"shop": {"name": "S"}},
        "teams": {"whole": True, "entries": {}},
    }
    made = planned(present, {"postern": 1, "organizations": {"acme": acme, "gone": {"roles": {"r": {}}}}})
    assert ["/".join(one.steps) for one in made.problems] == [
        "organizations/acme/mail_server/password",
        "organizations/acme/profile_fields/f/kind",
        "organizations/acme/profile_fields/g/label",
        "organizations/acme/services/shop/service_type",
        "organizations/gone/name",
        "organizations/gone/roles/r/name",
        "organizations/gone/roles/r/permissions",
    ]
    assert made.ends == ()
    assert WantedObject().fields == {}
    assert ORGANIZATION == "organization"


def test_what_stands_in_nothing_is_neither_made_nor_changed() -> None:
    """A wanted configuration names the holder of each object, or the holder is there. Otherwise its place is the problem, told once."""
    roles = [ObjectPlace("gone", "", "roles", name) for name in ("a", "b")]
    permission = ObjectPlace("acme", "shop", "permissions", "p")
    wanted_objects = WantedConfiguration(objects=dict.fromkeys([*roles, permission], WantedObject()))
    made = plan(RULES, EMPTY, wanted_objects)
    assert made.changes == ()
    assert made.problems == (
        Problem(("organizations", "acme", "services", "shop"), "there is no such service, and the document does not create one"),
        Problem(("organizations", "gone"), "there is no such organization, and the document does not create one"),
    )


def test_what_no_document_makes_must_be_there() -> None:
    rules = [*RULES, KindRules(name="seals", needed=frozenset({"color"}), can_make=False)]
    place = ObjectPlace("acme", "", "seals", "s")
    red = WantedConfiguration(objects={place: WantedObject(fields={"color": "red"})})
    # The fields that it would need are not asked for besides.
    nothing = WantedConfiguration(objects={place: WantedObject()})
    for one in (red, nothing):
        assert plan(rules, EMPTY, one).problems == (Problem(place.steps, "there is no such object, and the document does not create one"),)
    there = {**EMPTY, place: Present(fields={"color": "blue"}, id="7")}
    changed = plan(rules, there, red)
    assert changed.problems == ()
    assert [(one.act, one.place, one.id) for one in changed.changes] == [(PlannedAction.CHANGE, place, "7")]

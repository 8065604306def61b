"""Every noun has what nouns owe, or the list of exemptions says why not. Every table belongs to a noun, or is foundation."""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any, NewType

import pytest

from adapters.postgres.tables.every import TABLES
from core.domain import identifiers
from core.domain.languages import Language
from core.frozen import Frozen, replace
from tests.house.declaring import Noun
from tests.house.exemptions import EXEMPT, OWED, reasons, said_elsewhere
from tests.house.looking import House, house
from tests.house.nouns import FOUNDATION, NOUNS
from tests.house.obligations import OBLIGATIONS, lacks, told


@pytest.mark.parametrize("noun", NOUNS, ids=lambda noun: noun.name)
def test_a_noun_has_what_it_owes(noun: Noun) -> None:
    exempt = reasons()
    missing = [one for one in lacks(noun, house()) if (noun.name, one.obligation) not in exempt and not said_elsewhere(noun, one, house())]
    assert missing == [], told(noun.name, missing)


def test_no_exemption_is_stale() -> None:
    lacking = {(noun.name, one.obligation): said_elsewhere(noun, one, house()) for noun in NOUNS for one in lacks(noun, house())}
    stale = [f"{noun}: {obligation}" for noun, obligation in reasons() if lacking.get((noun, obligation), "has it") != ""]
    assert stale == [], "these have it after all, or another list says why not: take them out of tests/house/exemptions.py"


def test_exemptions_name_obligations_and_nouns_that_there_are() -> None:
    names = {noun.name for noun in NOUNS}
    assert len(names) == len(NOUNS)
    assert {noun for noun, _ in reasons()} <= names
    assert {obligation for _, obligation in reasons()} <= {one.name for one in OBLIGATIONS}
    assert all(len(reason.split()) > 3 for reason in (*OWED, *EXEMPT))


def test_every_table_belongs_to_a_noun_or_is_foundation() -> None:
    said = Counter([name for noun in NOUNS for name in noun.tables] + [name for one in FOUNDATION for name in one.tables])
    assert unspoken(said) == [], "\n".join(unspoken(said))
    assert [name for name, times in said.items() if times > 1] == [], "these are said twice"
    assert said.keys() - TABLES.keys() == set(), "there are no such tables"


def unspoken(said: Counter[str]) -> list[str]:
    return [
        f"Nobody says what the table {name} is: declare its noun in tests/house/nouns (the file of its family), or say in `parts` of a noun"
        f" what it holds of this noun, or give the reason why it is no noun's in tests/house/nouns/foundation.py."
        for name in sorted(TABLES.keys() - said.keys())
    ]


def test_every_id_is_of_a_noun_of_a_part_or_of_the_foundation() -> None:
    ids = {value for value in vars(identifiers).values() if isinstance(value, NewType)}
    said = [one for noun in NOUNS for one in (noun.id, *noun.part_ids) if one is not None]
    said += [one for base in FOUNDATION for one in base.ids]
    assert sorted(one.__name__ for one in ids - set(said)) == [], "say whose ids they are: `id` or `part_ids` in tests/house/nouns"
    assert len(said) == len(set(said))


def _without(name: str, lost: Collection[str]) -> House:
    """The house, with one thing of teams taken away."""
    whole = house()
    there: Any = getattr(whole, name)
    kept: Any = [one for one in there if str(one) not in lost]
    left: Any = {one: there[one] for one in kept} if isinstance(there, Mapping) else kept
    return replace(whole, **{name: left})


def test_the_walk_misses_what_is_taken_away() -> None:
    """Each obligation that a team has, one by one."""
    (team,) = [noun for noun in NOUNS if noun.name == "team"]
    at, whole = team.at, house()
    spanish = {
        **whole.texts,
        Language.SPANISH: {key: text for key, text in whole.texts[Language.SPANISH].items() if "team.deleted" not in key},
    }
    unpublished = {name: replace(one, published=one.published and not name.startswith("team.")) for name, one in whole.events.items()}
    table = whole.tables["teams"]
    houses = {
        "table": _without("tables", ["team_members"]),
        "list": _without("endpoints", [f"GET {at}"]),
        "get": _without("endpoints", [f"GET {at}/{{team_slug}}"]),
        "create": _without("endpoints", [f"POST {at}"]),
        "change": _without("endpoints", [f"PATCH {at}/{{team_slug}}"]),
        "delete": _without("endpoints", [f"DELETE {at}/{{team_slug}}"]),
        "page": _without("pages", [f"{team.page}/{{team_slug}}"]),
        "verb": _without("commands", [f"PATCH {at}/{{team_slug}}"]),
        "document in": _without("kinds", ["teams"]),
        "document out": _without("exported", ["teams"]),
        "audit": _without("events", ["team.created"]),
        "labels": replace(whole, texts=spanish),
        "webhook": replace(whole, events=unpublished),
        "search": _without("listed", ["team"]),
        "move": replace(whole, tables={**whole.tables, "teams": replace(table, moves="It stays where it is")}),
        "backup": _without("logged", ["teams"]),
        "bound": replace(whole, asked=frozenset()),
        "batches": replace(whole, tables={**whole.tables, "teams": replace(table, ends="They stay")}),
        "docs": replace(whole, documents=whole.documents.replace("team", "crew")),
    }
    for obligation, broken in houses.items():
        assert obligation in {one.obligation for one in lacks(team, broken)}, obligation
    (passkey,) = [noun for noun in NOUNS if noun.name == "passkey"]
    assert [one.sentence for one in lacks(passkey, _without("pages", ["/ui/passkeys"])) if one.obligation == "credential"] == [
        "passkey: no page at /ui/passkeys"
    ]


class Voucher(Frozen):
    """A noun that somebody adds tomorrow."""

    name: str


VOUCHER = Noun(name="voucher", of=Voucher, table="vouchers", at="/api/organizations/{org_slug}/vouchers")


def test_a_new_noun_is_told_all_that_it_owes() -> None:
    """The next engineer reads it."""
    assert told("voucher", list(lacks(VOUCHER, house()))) == MESSAGE


def test_a_table_of_which_nobody_speaks_is_told_what_to_do() -> None:
    (message,) = unspoken(Counter(TABLES.keys() - {"teams"}))
    assert message == (
        "Nobody says what the table teams is: declare its noun in tests/house/nouns (the file of its family), or say in `parts` of a noun"
        " what it holds of this noun, or give the reason why it is no noun's in tests/house/nouns/foundation.py."
    )


MESSAGE = (
    "The noun `voucher` owes this, and lacks it:\n"
    "  table: no declaration of vouchers: declare it in adapters/postgres/tables, in the file of its family\n"
    "  list: no endpoint at /api/organizations/{org_slug}/vouchers lists all (GET), with tags: declare it in "
    "entrypoints/http/routes/<family>\n"
    "  get: no endpoint at /api/organizations/{org_slug}/vouchers shows one (GET), with tags: declare it in "
    "entrypoints/http/routes/<family>\n"
    "  create: no endpoint at /api/organizations/{org_slug}/vouchers makes one (POST), with tags: declare it in "
    "entrypoints/http/routes/<family>\n"
    "  change: no endpoint at /api/organizations/{org_slug}/vouchers changes one (PATCH), with tags: declare it in "
    "entrypoints/http/routes/<family>\n"
    "  delete: no endpoint at /api/organizations/{org_slug}/vouchers ends one (DELETE), with tags: declare it in "
    "entrypoints/http/routes/<family>\n"
    "  page: no page: declare a Resource in entrypoints/http/console, and name its address as `page`\n"
    "  verb: no command of the command line (the noun has no endpoints): path and method of an endpoint say its words, or its "
    "`verb=` does\n"
    "  document in: no configuration document sets it: give it an ObjectKind in entrypoints/http/routes/configuration, and name it"
    " as `document`\n"
    "  document out: no configuration document shows it: write its statement in adapters/postgres/platform/configuration\n"
    "  audit: the audit log does not tell of its beginning (`.created`) and its end (`.deleted`): name the events in "
    "core/domain/record/event_types.py, and as `events`\n"
    "  labels: its events have no label and sentence in four languages (it has no events): write them in texts/ of "
    "entrypoints/http/console/organization, as `console.event.<name>` and `console.told.by.<name>`\n"
    "  webhook: no webhook hears of it: publish its events in core/domain/record/event_types.py, and describe their data there\n"
    "  search: the search does not find it by its name: add a ThingKind (core/domain/platform/searches.py), a part of the "
    "statement (adapters/postgres/platform/todos.py) and who may list it (entrypoints/http/routes/searches.py), and name it as "
    "`search`\n"
    "  export: say by `exported` of its table, in adapters/postgres/tables, which part of a person's export has what it holds of "
    "people\n"
    "  move: say by `moves` of its table, in adapters/postgres/tables, what another installation takes when the organization moves"
    " there\n"
    "  backup: a backup lacks vouchers: make it in adapters/postgres/migrations, and not `unlogged`\n"
    "  bound: nothing bounds how many an organization has: declare a constant MOST_… beside its class, hold it in the use case or "
    "the statement, and name it as `most`\n"
    "  batches: say by `ends` of its table, in adapters/postgres/tables, how the rows go with their organization, in batches\n"
    "  endings: say by `opens` of its table, in adapters/postgres/tables, which kind of credential it is; "
    "core/domain/identity/endings.py says what ends each kind, and when\n"
    "  credential: if it lets somebody in, a page where the person sees and ends it, and a mail that tells of it: `OWED` in "
    "core/domain/identity/endings.py\n"
    "  docs: no document in docs names “voucher”: write a line in the guide where somebody would look\n"
    "Do it at the place that the line names, and name it in the noun's declaration (tests/house/nouns) where the line says so.\n"
    "What this noun needs not have stands in tests/house/exemptions.py, with the reason."
)

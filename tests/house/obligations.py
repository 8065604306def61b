"""What a noun owes. Each obligation says whose nouns owe it, and looks in the house whether one has it.

What one lacks is told in words, with the place where to do it: the next engineer reads nothing else.
"""

import re
from collections.abc import Callable, Collection, Iterator
from enum import StrEnum
from typing import Final

from adapters.postgres.tables.declaring import Ends, ExportPart, Moved
from core.domain.identity.endings import ENDINGS, OWED, Because, Cause, CredentialKind, Owed
from core.domain.record.event_types import Audience, EventType
from core.frozen import Frozen
from entrypoints.http.machinery.endpoints import Endpoint
from tests.house.declaring import Noun
from tests.house.looking import House


class Holder(StrEnum):
    """Whom a noun belongs to. Its address says it."""

    ORGANIZATION = "an organization"
    """Or a service of one."""
    PLATFORM = "the platform"
    PERSON = "a person"


def holder_of(noun: Noun) -> Holder:
    if noun.at.startswith("/api/platform"):
        return Holder.PLATFORM
    return Holder.PERSON if noun.at.startswith(("/api/user", "/api/privacy")) else Holder.ORGANIZATION


class Obligation(Frozen):
    name: str
    of: Collection[Holder]
    lack: Callable[[Noun, House], str]
    """A sentence that says what is missing, and where to do it. Empty if nothing is."""


class Lack(Frozen):
    noun: str
    obligation: str
    sentence: str


def lacks(noun: Noun, house: House) -> Iterator[Lack]:
    """What the noun owes and does not have."""
    for one in OBLIGATIONS:
        if holder_of(noun) in one.of and (sentence := one.lack(noun, house)):
            yield Lack(noun.name, one.name, sentence)


def told(name: str, missing: Collection[Lack]) -> str:
    """The message of the walk."""
    lines = [f"  {one.obligation}: {one.sentence}" for one in missing]
    return "\n".join(
        (
            f"The noun `{name}` owes this, and lacks it:",
            *lines,
            "Do it at the place that the line names, and name it in the noun's declaration (tests/house/nouns) where the line says so.",
            "What this noun needs not have stands in tests/house/exemptions.py, with the reason.",
        )
    )


def own_endpoints(noun: Noun, house: House) -> list[Endpoint]:
    """The endpoints of the list and of one thing."""
    if not noun.at:
        return []
    own = re.compile(rf"{re.escape(noun.at)}(/\{{\w+\}})?")
    return [one for one in house.endpoints if own.fullmatch(one.path)]


def _endpoint(does: str, methods: Collection[str], *, of_one: bool) -> Callable[[Noun, House], str]:
    def lack(noun: Noun, house: House) -> str:
        if noun.is_single:
            return "" if any(one.path == noun.at and one.method in methods for one in _described(noun, house)) else _no(noun, does)
        found = [one for one in _described(noun, house) if one.method in methods and (one.path != noun.at) is of_one]
        return "" if found else _no(noun, does)

    return lack


def _described(noun: Noun, house: House) -> list[Endpoint]:
    """Those that the OpenAPI document has."""
    return [one for one in own_endpoints(noun, house) if one.tags]


def _no(noun: Noun, does: str) -> str:
    return f"no endpoint at {noun.at or '(`at` is not declared)'} {does}, with tags: declare it in entrypoints/http/routes/<family>"


def _listed(noun: Noun, house: House) -> str:
    return "" if noun.is_single else _endpoint("lists all (GET)", ("GET",), of_one=False)(noun, house)


def _page(noun: Noun, house: House) -> str:
    if noun.page not in house.pages:
        return f"no page{_at(noun)}: declare a Resource in entrypoints/http/console, and name its address as `page`"
    if noun.is_single or any(re.fullmatch(rf"{re.escape(noun.page)}/\{{\w+\}}", one) for one in house.pages):
        return ""
    return f"no page of one thing below {noun.page}: name the `parameter` of its Resource in entrypoints/http/console"


def _persons_page(noun: Noun, house: House) -> str:
    return "" if noun.page in house.pages else f"no page{_at(noun)}: write one in entrypoints/http/pages/account, and name it as `page`"


def _at(noun: Noun) -> str:
    return f" at {noun.page}" if noun.page else ""


def _verb(noun: Noun, house: House) -> str:
    own = own_endpoints(noun, house)
    silent = sorted(str(one) for one in own if str(one) not in house.commands)
    if own and not silent:
        return ""
    missing = ", ".join(silent) or "the noun has no endpoints"
    return f"no command of the command line ({missing}): path and method of an endpoint say its words, or its `verb=` does"


def _document_in(noun: Noun, house: House) -> str:
    kind = house.kinds.get(noun.document)
    if kind is None:
        return (
            "no configuration document sets it: give it an ObjectKind in entrypoints/http/routes/configuration, and name it as `document`"
        )
    asked = [str(one.path) for one in (kind.make, kind.change) if one is not None]
    return "" if any(is_at(path, noun.at) for path in asked) else f"the kind `{kind.id}` is not set by an endpoint at {noun.at}"


def is_at(path: str, at: str) -> bool:
    return path == at or path.startswith(f"{at}/")


def _document_out(noun: Noun, house: House) -> str:
    if noun.document in house.exported:
        return ""
    return "no configuration document shows it: write its statement in adapters/postgres/platform/configuration"


_MADE: Final = ("created", "invited", "configured", "added", "enabled", "given", "success", "joined", "linked", "started", "set", "opened")
_ENDED: Final = (
    *("deleted", "removed", "revoked", "ended", "canceled", "cancelled", "disabled", "unlinked", "declined", "anonymized"),
    *("reclaimed", "deactivated"),
)


def _events(noun: Noun, house: House) -> list[EventType]:
    begins = tuple(f"{begin}." for begin in noun.events)
    return [one for name, one in house.events.items() if f"{name}.".startswith(begins) and one.audited]


def _audit(noun: Noun, house: House) -> str:
    # What happens to a part of it is no act on it: `team.member.added` makes no team.
    own = (one.name for one in _events(noun, house) if {one.name, one.name.rpartition(".")[0]} & set(noun.events))
    acts = {name.rpartition(".")[2].rpartition("_")[2] for name in own}
    missing = [
        *(() if acts & set(_MADE) or (noun.is_single and acts) else ("its beginning (`.created`)",)),
        *(() if acts & set(_ENDED) or (acts & {"updated"} and noun.is_single) else ("its end (`.deleted`)",)),
        *(() if acts & {"updated", "renamed", "changed"} or not _changes(noun, house) or noun.is_single else ("its change (`.updated`)",)),
    ]
    if not missing:
        return ""
    return f"the audit log does not tell of {' and '.join(missing)}: name the events in core/domain/record/event_types.py, and as `events`"


def _changes(noun: Noun, house: House) -> bool:
    return any(one.method in {"PATCH", "PUT"} for one in own_endpoints(noun, house))


def _labels(noun: Noun, house: House) -> str:
    keys = [f"console.{section}.{one.name}" for one in _events(noun, house) for section in ("event", "told.by")]
    missing = sorted({f"{language}: {key}" for language, texts in house.texts.items() for key in keys if key not in texts})
    if keys and not missing:
        return ""
    return (
        f"its events have no label and sentence in four languages ({', '.join(missing) or 'it has no events'}): write them in texts/ of"
        " entrypoints/http/console/organization, as `console.event.<name>` and `console.told.by.<name>`"
    )


def _webhook(noun: Noun, house: House) -> str:
    events = [one for one in _events(noun, house) if one.audience is Audience.ORGANIZATION]
    if any(one.published for one in events):
        return ""
    return "no webhook hears of it: publish its events in core/domain/record/event_types.py, and describe their data there"


def _search(noun: Noun, house: House) -> str:
    if noun.search is None:
        return (
            "the search does not find it by its name: add a ThingKind (core/domain/platform/searches.py), a part of the statement"
            " (adapters/postgres/platform/todos.py) and who may list it (entrypoints/http/routes/searches.py), and name it as `search`"
        )
    if f"'{noun.search}'" not in house.found or noun.search not in house.listed:
        return f"the search does not know the kind `{noun.search}`"
    return ""


def _of_table(field: str, question: str) -> str:
    return f"say by `{field}` of its table, in adapters/postgres/tables, {question}"


def _table(noun: Noun, house: House) -> str:
    unsaid = sorted(name for name in noun.tables if name not in house.tables)
    if not unsaid:
        return ""
    return f"no declaration of {', '.join(unsaid)}: declare it in adapters/postgres/tables, in the file of its family"


def _export(noun: Noun, house: House) -> str:
    """A table refuses personal data of which it says nothing. Its sentence is the reason where nothing is exported."""
    unsaid = [name for name in noun.tables if name not in house.tables]
    if unsaid:
        return _of_table("exported", "which part of a person's export has what it holds of people")
    silent = [name for name in noun.tables if house.tables[name].personal and not house.tables[name].exported]
    return f"{', '.join(silent)} hold personal data that no export shows: say `exported` in adapters/postgres/tables" if silent else ""


def _moves(noun: Noun, house: House) -> str:
    table = house.tables.get(noun.table)
    if table is None:
        return _of_table("moves", "what another installation takes when the organization moves there")
    return (
        "" if isinstance(table.moves, Moved) else f"it does not move with its organization ({table.moves}): say `Moved(…)` of {table.name}"
    )


def _backup(noun: Noun, house: House) -> str:
    lost = sorted(name for name in noun.tables if name not in house.logged)
    if not lost:
        return ""
    return f"a backup lacks {', '.join(lost)}: make it in adapters/postgres/migrations, and not `unlogged`"


def _bound(noun: Noun, house: House) -> str:
    name = noun.most.rpartition(".")[2]
    if noun.is_single:
        return ""
    if noun.bound is None:
        return (
            "nothing bounds how many an organization has: declare a constant MOST_… beside its class, hold it in the use case or the"
            " statement, and name it as `most`"
        )
    if (noun.module_of_bound, name) in house.asked:
        return ""
    return f"nobody asks {name}: hold it in the use case or the statement"


def _batches(noun: Noun, house: House) -> str:
    table = house.tables.get(noun.table)
    if table is None:
        return _of_table("ends", "how the rows go with their organization, in batches")
    if isinstance(table.ends, Ends) and table.ends is not Ends.CASCADES:
        return ""
    return f"its rows do not go in batches when an organization ends ({table.ends}): say one of `Ends` of {table.name}"


def _endings(noun: Noun, house: House) -> str:
    unknown = [name for name in noun.tables if name not in house.tables]
    if unknown:
        return _of_table("opens", "which kind of credential it is; core/domain/identity/endings.py says what ends each kind, and when")
    unsaid = sorted({f"{kind} by {cause.name}" for kind in _kinds(noun, house) for cause in Cause if kind not in ENDINGS.get(cause, {})})
    return f"nobody says what ends it: {', '.join(unsaid)}, in core/domain/identity/endings.py" if unsaid else ""


def _kinds(noun: Noun, house: House) -> set[CredentialKind]:
    return {kind for name in noun.tables if name in house.tables for kind in house.tables[name].kinds}


def _credential(noun: Noun, house: House) -> str:
    """A credential has a page where the person ends it, a mail that tells the person, and a part of the export."""
    missing = []
    if any(name not in house.tables for name in noun.tables):
        return (
            "if it lets somebody in, a page where the person sees and ends it, and a mail that tells of it: `OWED` in"
            " core/domain/identity/endings.py"
        )
    for kind in sorted(_kinds(noun, house)):
        owed = OWED.get(kind)
        if owed is None:
            missing.append(f"{kind}: say its page, mails and part of the export in `OWED` of core/domain/identity/endings.py")
        elif not isinstance(owed.page, Because) and owed.page not in house.pages:
            missing.append(f"{kind}: no page at {owed.page}")
        elif silent := [name for name in _mails(owed) for texts in house.texts.values() if f"mail_{name}.subject" not in texts]:
            missing.append(f"{kind}: the mail {silent[0]} has no subject in adapters/texts, in one of four languages")
    return "; ".join(missing)


def _mails(owed: Owed) -> tuple[str, ...]:
    return () if isinstance(owed.mails, Because) else owed.mails


def _exports_kept(noun: Noun, house: House) -> str:
    """What `OWED` names as a part of the export, the table of the kind exports."""
    for name in noun.tables:
        table = house.tables.get(name)
        owed = OWED.get(table.kinds[0]) if table is not None and len(table.kinds) == 1 else None
        part = table.exported if table is not None else None
        if owed is not None and isinstance(part, ExportPart) and isinstance(owed.exported, Because):
            return f"{name} is exported as `{part.part}`, and `OWED` says that it is not"
    return ""


def _docs(noun: Noun, house: House) -> str:
    names = noun.told_as or (noun.name,)
    if any(name.lower() in house.documents for name in names):
        return ""
    return f"no document in docs names {' or '.join(f'“{name}”' for name in names)}: write a line in the guide where somebody would look"


_ALL: Final = frozenset(Holder)
_GOVERNED: Final = frozenset({Holder.ORGANIZATION, Holder.PLATFORM})
_TENANTS: Final = frozenset({Holder.ORGANIZATION})

OBLIGATIONS: Final = (
    Obligation("table", _ALL, _table),
    Obligation("list", _ALL, _listed),
    Obligation("get", _ALL, _endpoint("shows one (GET)", ("GET",), of_one=True)),
    Obligation("create", _ALL, _endpoint("makes one (POST)", ("POST", "PUT", "PATCH"), of_one=False)),
    Obligation("change", _ALL, _endpoint("changes one (PATCH)", ("PATCH", "PUT", "POST"), of_one=True)),
    Obligation("delete", _ALL, _endpoint("ends one (DELETE)", ("DELETE",), of_one=True)),
    Obligation("page", _GOVERNED, _page),
    Obligation("page", {Holder.PERSON}, _persons_page),
    Obligation("verb", _TENANTS, _verb),
    Obligation("document in", _GOVERNED, _document_in),
    Obligation("document out", _GOVERNED, _document_out),
    Obligation("audit", _ALL, _audit),
    Obligation("labels", _ALL, _labels),
    Obligation("webhook", _TENANTS, _webhook),
    Obligation("search", _GOVERNED, _search),
    Obligation("export", _ALL, _export),
    Obligation("move", _TENANTS, _moves),
    Obligation("backup", _ALL, _backup),
    Obligation("bound", _TENANTS, _bound),
    Obligation("batches", _TENANTS, _batches),
    Obligation("endings", _ALL, _endings),
    Obligation("credential", _ALL, _credential),
    Obligation("credential's export", _ALL, _exports_kept),
    Obligation("docs", _ALL, _docs),
)

"""One act for several rows of a list: the list has boxes to tick, a page names the chosen rows and asks, and a page says what became of
each. Every row goes to the endpoint by itself, so the endpoint's own rule decides about each.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl

from core.domain.errors import NotFound, RateLimited, Refusal
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.endpoints import Endpoint
from entrypoints.http.machinery.errors import status_of
from entrypoints.http.pages.console.declaring import console
from entrypoints.http.pages.console.handlers import stated
from entrypoints.http.pages.console.lists import page_of_list
from entrypoints.http.pages.console.resources import Bulk, Resource
from entrypoints.http.pages.console.visit import NO_ERRORS, AnyCall, Head, Page, PageVisit

_SURE: Final = "yes"
_MOST_ASKED: Final = 20
Outcome = tuple[str, bool, str]
"""The name of a row, whether the act is done, and why it is not."""


class BulkForm(BoundForm, frozen=True, kw_only=True):
    chosen: Sequence[str] = ()
    """The rows' values of the resource's parameter."""
    asked: str = ""
    """The query of the list where the rows were chosen, which finds their names again."""
    sure: str = ""


def bulk_page(resource: Resource, bulk: Bulk) -> Endpoint:
    at, endpoint = f"{resource.at}/~{bulk.name}", bulk.endpoint

    async def handler(call: AnyCall, postern: Postern) -> Page:
        visit, form = PageVisit(call, postern), call.body
        wanted = set(form.chosen[: resource.on_a_page])
        rows = [row for row in await _rows(resource, visit, form.asked) if str(resource.key(row)) in wanted] if wanted else []
        if not rows:
            error = visit.text("console.bulk.gone" if wanted else "console.bulk.nothing_chosen")
            return Answer(_shown(resource, bulk, visit, form, [], errors={"": error}), 409 if wanted else 400)
        if form.sure != _SURE:
            return Answer(_shown(resource, bulk, visit, form, rows), 200)
        outcomes = await _done(resource, bulk, visit, rows)
        return Answer(_shown(resource, bulk, visit, form, rows, outcomes=outcomes), 200)

    return console.post(at, of=endpoint, also=(resource.listed,))(
        stated(handler, f"{bulk.name}_many_of_{resource.name}", at, body=BulkForm)
    )


async def _rows(resource: Resource, visit: PageVisit, asked: str) -> Sequence[Any]:
    """The rows of the page of the list where the choice was made."""
    try:
        query = page_of_list(resource, dict(parse_qsl(asked, max_num_fields=_MOST_ASKED)))
    except ValueError:
        raise NotFound from None
    return resource.rows_in(await visit.ask(resource.listed, query={**query, **(resource.query or {})}))


async def _done(resource: Resource, bulk: Bulk, visit: PageVisit, rows: Sequence[Any]) -> Sequence[Outcome]:
    outcomes = list[Outcome]()
    for number, row in enumerate(rows):
        called = resource.called(row)
        try:
            await visit.ask(bulk.endpoint, **{resource.parameter: resource.key(row)})
        except NotFound:
            # Somebody else was quicker.
            outcomes.append((called, True, ""))
        except RateLimited as refusal:
            outcomes += [(resource.called(one), False, visit.said(refusal)) for one in rows[number:]]
            break
        except Refusal as refusal:
            if status_of(refusal) >= 500:
                raise
            outcomes.append((called, False, visit.said(refusal)))
        else:
            outcomes.append((called, True, ""))
    return outcomes


def _shown(
    resource: Resource,
    bulk: Bulk,
    visit: PageVisit,
    form: BulkForm,
    rows: Sequence[Any],
    *,
    outcomes: Sequence[Outcome] = (),
    errors: Mapping[str, str] = NO_ERRORS,
) -> bytes:
    if len(rows) == 1:
        title = resource.text(visit, f"ask_{bulk.name}_title", called=resource.called(rows[0]))
    else:
        title = resource.text(visit, f"bulk_{bulk.name}_title", count=len(rows))
    of_one: dict[str, Any] = {resource.parameter: "…"}
    return visit.show(
        "many/bulk.html",
        resource.position,
        Head(
            title=resource.text(visit, f"act_{bulk.name}") if outcomes or not rows else title,
            crumbs=resource.above(visit),
            curl=visit.curl(bulk.endpoint, **of_one) if rows and not outcomes else "",
            errors=errors,
        ),
        explained=resource.text(visit, f"ask_{bulk.name}_text" if len(rows) == 1 else f"bulk_{bulk.name}_text"),
        names=[resource.called(row) for row in rows],
        chosen=[str(resource.key(row)) for row in rows],
        asked=form.asked,
        missing=len(set(form.chosen)) - len(rows) if rows else 0,
        outcomes=outcomes,
        action=visit.here(f"{resource.at}/~{bulk.name}"),
        back=visit.here(resource.at),
        button=resource.text(visit, f"act_{bulk.name}"),
    )

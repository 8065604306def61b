"""Two widely used directories, request by request: only requests that our interface excludes are refused, and each success shows
afterwards.
"""

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import pytest

from entrypoints.bootstrap import Postern
from tests.http.client import Client
from tests.http.federation.scim.dialects import CORPORA, MAPPED, MAPPED_CORPORA, TEAM_CORPORA, Shape, render
from tests.http.federation.scim.directories import BASE, Directory
from tests.http.people import People
from tests.places import ROOT


def filled(text: str, ids: dict[str, str]) -> str:
    for name, value in ids.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def target(path: str, ids: dict[str, str]) -> str:
    return BASE + quote(filled(path, ids), safe="/?&=")


async def confirm(directory: Directory, one: Shape, answer: Any, ids: dict[str, str]) -> None:
    """Checks that a GET shows the values of the answer."""
    if one.finds is not None:
        assert (answer["totalResults"], len(answer["Resources"])) == (one.finds, one.finds), one.what
    if one.shows:
        resource = one.path if "{" in one.path else f"{one.path}/{{{one.creates}}}"
        shown = (await directory.ask("GET", target(resource, ids))).ok()
        assert {name: shown.get(name) for name in one.shows} == one.shows, one.what
        assert {name: answer.get(name) for name in one.shows} == one.shows, one.what
    if one.team is not None:
        resource = one.path if "{" in one.path else f"{one.path}/{{{one.creates}}}"
        for seen in (answer, (await directory.ask("GET", target(resource, ids))).ok()):
            assert {member["value"] for member in seen["members"]} == {ids[name] for name in one.team}, one.what
    if one.members is not None:
        assert (ids["user"] in await directory.members()) is one.members, one.what


@pytest.mark.parametrize("shapes", CORPORA.values(), ids=CORPORA)
async def test_a_directory_gets_what_it_asks_for(postern: Postern, client: Client, people: People, shapes: Sequence[Shape]) -> None:
    directory = await Directory(postern, client, people).connect()
    await follow(directory, shapes)
    passwords = people.rows("select from users where password_hash is not null")
    assert passwords == [], "a directory sets no password"
    assert people.rows("select from users where profile_updated_at is not null") == [], "names are the organization's own data"


@pytest.mark.parametrize("shapes", TEAM_CORPORA.values(), ids=TEAM_CORPORA)
async def test_a_directory_pushes_several_groups(postern: Postern, client: Client, people: People, shapes: Sequence[Shape]) -> None:
    directory = await Directory(postern, client, people).connect()
    await directory.switch()
    await follow(directory, shapes)
    # Whoever is in a team is a member of the organization.
    assert people.rows("select from team_members where not exists (select from memberships where user_id = team_members.user_id)") == []


@pytest.mark.parametrize("shapes", MAPPED_CORPORA.values(), ids=MAPPED_CORPORA)
async def test_a_directory_fills_what_the_owner_has_mapped(
    postern: Postern, client: Client, people: People, shapes: Sequence[Shape]
) -> None:
    directory = await Directory(postern, client, people).connect()
    for key in MAPPED.values():
        if key not in {"department", "number"}:
            await directory.declare(key)
    await directory.declare("department", "choice", rule={"choices": ["Engines", "Mills"]})
    await directory.declare("number", "number")
    assert (await directory.map(MAPPED)).status == 200
    await follow(directory, shapes)


@pytest.mark.parametrize("shapes", CORPORA.values(), ids=CORPORA)
async def test_the_default_mappings_go_through_beside_fields_that_take_nothing(
    postern: Postern, client: Client, people: People, shapes: Sequence[Shape]
) -> None:
    directory = await Directory(postern, client, people).connect()
    for key in MAPPED.values():
        await directory.declare(key, "list")
    assert (await directory.map(MAPPED)).status == 200
    await follow(directory, shapes)


async def follow(directory: Directory, shapes: Sequence[Shape]) -> None:
    """Sends the requests one after the other, and looks at the answers."""
    ids = {"group": str(directory.tenant.id)}
    for one in shapes:
        body = None if one.body is None else json.loads(filled(json.dumps(one.body), ids))
        answer = await directory.ask(one.method, target(one.path, ids), body)
        assert answer.status == one.status, (one.what, answer.body)
        told = answer.json() if answer.body else {}
        if one.method == "POST" and one.status == 201:
            ids[one.creates] = told["id"]
        await confirm(directory, one, told, ids)


def test_the_page_names_each_request() -> None:
    written = (ROOT / "docs" / "scim-dialects.md").read_text()
    assert written == render(), "run: .venv/bin/python -m tests.http.federation.scim.dialects > docs/scim-dialects.md"

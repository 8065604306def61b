"""The lines of the guide for agents: the request and the poll, sent as they stand there."""

import json
from typing import Any, Final
from urllib.parse import parse_qsl

from tests.http.federation.backchannel.asking import Afar
from tests.http.federation.relying import oauth
from tests.places import ROOT

GUIDE: Final = ROOT / "docs" / "guides" / "apis" / "agents.md"
HEADING: Final = "## Request approval without a browser (CIBA)\n"
Line = tuple[str, dict[str, str]]


def told() -> tuple[Line, Line, dict[str, Any]]:
    """The request and the poll, each with its path and fields, and the answer to the first."""
    block = GUIDE.read_text().partition(HEADING)[2].partition("```text\n")[2].partition("```")[0]
    asks, answer, polls = block.strip().split("\n\n")
    return _line(asks), _line(polls), json.loads(answer)


def _line(text: str) -> Line:
    first, fields = text.split("\n")
    method, path = first.split(" ")
    assert method == "POST"
    return path, dict(parse_qsl(fields, strict_parsing=True))


async def test_the_guides_lines_get_a_yes(afar: Afar) -> None:
    (ask, fields), (token, poll), answer = told()
    asked = (await afar.ask(ask, {**fields, **afar.helper.posted, "login_hint": afar.ada.email})).ok()
    afar.log.remember(asked["auth_req_id"])
    assert {**asked, "auth_req_id": "…"} == answer
    (shown,) = await afar.waiting()
    assert (shown["binding_message"], shown["identifier"]) == (fields["binding_message"], fields["resource"])
    polled = {**poll, **afar.helper.posted, "auth_req_id": asked["auth_req_id"]}
    assert oauth(await afar.ask(token, polled)) == (400, "authorization_pending")
    assert (await afar.allow()).status == 204
    tokens = afar.kept((await afar.ask(token, polled)).ok())
    assert tokens["scope"] == fields["scope"]
    assert oauth(await afar.ask(token, polled)) == (400, "invalid_grant")

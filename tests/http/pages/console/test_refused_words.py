"""No page of the console shows the sentence that programs get: each refusal of a form has words of its own, in the reader's language."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from html import unescape

import pytest

from adapters.texts import shipped
from core.domain.languages import Language
from entrypoints.http.console.kit.forms import Input, InputKind
from entrypoints.http.console.kit.resources import Resource
from tests.http.pages.console.conftest import ConsoleScene
from tests.http.pages.console.texts import resources
from tests.places import PAGES, ROOT

REFUSALS = {"BadRequest", "Conflict", "Forbidden"}
# Programs, protocols and the command line alone meet these.
NO_PAGES = (
    "adapters/postgres/moving/arriving_columns.py",
    "adapters/postgres/moving/arriving_rows.py",
    "core/domain/federation/backchannel_requests.py",
    "core/domain/federation/oauth/",
    "core/domain/federation/scim/",
    # What an owner enters has words; the rest is for applications, which make the streams.
    "core/domain/federation/signals.py",
    "core/usecases/federation/signals.py",
    "core/domain/identity/foreign_hashes/",
    "core/domain/identity/callers.py",
    "core/domain/identity/made_accounts.py",
    "core/domain/identity/privacy.py",
    "core/domain/identity/sign_in.py",
    "core/domain/platform/imports/",
    "core/domain/record/audit.py",
    "core/domain/record/audit.py",
    "core/domain/record/stories.py",
    "core/domain/services/rights.py",
    "core/domain/services/billing_news.py",
    "core/domain/services/billing_news.py",
    "core/domain/services/clients.py",
    "core/usecases/jobs.py",
    "core/usecases/federation/authorization_requests.py",
    "core/usecases/federation/grants.py",
    "core/usecases/federation/saml/sign_in.py",
    "core/usecases/federation/grants.py",
    "core/usecases/federation/scim/",
    "core/usecases/fetches.py",
    "core/usecases/identity/profiles.py",
    "core/usecases/identity/privacy.py",
    "core/usecases/identity/sessions.py",
    "core/usecases/identity/sign_in/",
    "core/usecases/identity/upstream/",
    "core/usecases/platform/analytics.py",
    "core/usecases/platform/imports.py",
    "core/usecases/record.py",
    "core/usecases/services/services.py",
    "core/usecases/services/plans.py",
    "core/usecases/keys.py",
    "core/usecases/tenancy/rights.py",
)


def wordless() -> Iterator[str]:
    for folder in (ROOT / "core", ROOT / "adapters" / "saml"):
        for file in sorted(folder.rglob("*.py")):
            where = str(file.relative_to(ROOT))
            if where.startswith(NO_PAGES):
                continue
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or not node.args:
                    continue
                if node.func.id in REFUSALS and not any(one.arg == "words" for one in node.keywords):
                    yield f"{where}:{node.lineno}"


def test_each_refusal_that_a_page_can_meet_has_words_for_people() -> None:
    assert list(wordless()) == []


@cache
def said_in_german() -> re.Pattern[str]:
    """Everything that the catalogue can say."""
    texts = (re.escape(text) for text in shipped(Language.GERMAN, PAGES).values())
    return re.compile("|".join(re.sub(r"\\\{[a-z_]+\\\}", ".*", text) for text in sorted(texts, key=len, reverse=True)), re.DOTALL)


def errors_on(body: bytes) -> list[str]:
    found = re.findall(r'<p class="error"[^>]*>(.*?)</p>|<li><a href="#[^"]*">(.*?)</a></li>', body.decode(), re.DOTALL)
    return [unescape(re.sub(r"<[^>]+>", "", "".join(one))).replace("\xad", "").replace("\N{NON-BREAKING HYPHEN}", "-") for one in found]


def unfit(one: Input) -> str | list[str]:
    """A text that no field of this kind takes."""
    if one.takes_several:
        return ["no such choice"]
    return "\x07nothing that fits: " + "x" * 5000 if one.kind is not InputKind.NUMBER else "many"


MAKING = [one for one in resources() if one.making is not None and one.at.startswith("/ui/o/")]


@pytest.mark.parametrize("sent", ["nothing", "unfit"])
@pytest.mark.parametrize("resource", MAKING, ids=[f"{number}-{one.name}" for number, one in enumerate(MAKING)])
async def test_a_form_says_in_the_readers_language_what_does_not_fit(resource: Resource, sent: str, console: ConsoleScene) -> None:
    assert resource.making is not None
    console.tenants.service(console.acme, "board")
    console.tab.tabs.language = "de"
    place = resource.at.format_map({"org_slug": "acme", "service_slug": "board"}) + "/~new"
    await console.tab.open(place)
    assert console.tab.status == 200
    form = next(number for number, one in enumerate(console.tab.page.forms) if one.action == place)
    inputs = resource.making.shape.inputs
    # Inputs under a choice do not count here, since the choice is none.
    values = {one.field: unfit(one) if sent == "unfit" and one.under is None else ([] if one.takes_several else "") for one in inputs}
    tab = await console.tab.send(form, **values)
    if tab.status == 200:
        # It asks for nothing that could be wrong.
        assert not any(one.required or one.attributes for one in inputs)
        return
    assert tab.status in {400, 409}, tab.page.text
    said = errors_on(tab.shown.body)
    fields = {one.field for one in inputs}
    assert said, tab.page.text
    assert [one for one in said if said_in_german().fullmatch(one) is None] == []
    assert fields & set(re.findall(r'<li><a href="#([^"]*)">', tab.shown.body.decode())), "the summary leads to a field"

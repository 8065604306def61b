"""No form of the console folds a field without which it cannot be sent: each form that makes something is sent with what is in sight alone,
by each of its cards, and no refusal is about a field that stands folded.
"""

import re
from collections.abc import Iterator, Mapping
from html import unescape
from typing import Final
from urllib.parse import urlencode

from core.domain.identity.upstream.providers import FurtherKind
from core.frozen import Frozen
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.endpoints import Endpoint
from ops.browser.page_reader import PageReader
from tests.http import conftest as http
from tests.http.client import Received
from tests.http.people import People
from tests.http.signing_in import unlimited
from tests.http.upstream.further.test_presets import PRESETS
from tests.security.organizations.console import Reader, Readers, address, pages_of
from tests.security.organizations.world import World

database_url, postern, people = http.database_url, http.postern, http.people

_FORM: Final = re.compile(r'<form method="post" action="([^"]*)".*?</form>', re.DOTALL)
_DETAILS: Final = re.compile(r'<details class="(?:curl )?chosen".*?</details>', re.DOTALL)
_CONTROL: Final = re.compile(r"<(input|textarea|select)\b([^>]*)>(.*?)(?=<input|<textarea|<select|\Z)", re.DOTALL)
_ATTRIBUTE: Final = re.compile(r'(\w+)="?([^"\s>]*)"?')
_OPTION: Final = re.compile(r'<option value="([^"]+)"')
_AT_FAULT: Final = re.compile(r'<a href="#([^"]*)"')
# What a person would type, by a word in the field's name. The first that fits counts; any other text differs from form to form.
_TYPED: Final = (
    ("email", "new@people.example"),
    ("domain", "brand-new.example"),
    ("scopes", "read"),
    ("key_id", "ABCDE12345"),
    ("team_id", "ABCDE12345"),
    ("issuer", "https://login.new.example"),
    ("addresses", "https://app.new.example/callback"),
    ("jwks_uri", "https://login.new.example/keys"),
    ("_uri", "https://app.new.example/callback"),
    ("url", "https://app.new.example/hook"),
    ("audience", "https://api.new.example"),
    ("until", "2026-12-24T10:00"),
    ("liest", "2026-12-24"),
    ("latest", "2026-12-24"),
)
# Refusals that name a folded field for a reason of the tests: nothing is resolved here, so nobody answers at the preset's own issuer.
_UNREACHED: Final = {f"/ui/platform/providers/~new?preset={preset}: issuer" for preset in ("gitlab", "linkedin", "slack", "apple")}
MOST_REFUSED: Final = 14
"""So many refusals are about what the walk has typed in sight. A form that is refused shows less of what stands folded."""
# Pages of one address that ask for different things, by their queries.
_QUERIES: Final[Mapping[str, tuple[str, ...]]] = {
    "/ui/platform/providers/~new": (
        *(urlencode({"preset": preset}) for preset in PRESETS),
        urlencode({"kind": FurtherKind.OPENID.value, "issuer": "https://login.new.example"}),
        urlencode({"kind": FurtherKind.OAUTH.value, "authorization_url": "https://login.new.example/authorize"}),
    )
}


class SeenForm(Frozen):
    action: str
    sent: Mapping[str, str]
    """What the form sends, untouched."""
    in_sight: str
    folded: frozenset[str]

    @classmethod
    def of(cls, page: Received, action: str) -> "SeenForm | None":
        found = next((one for one in _FORM.finditer(page.body.decode()) if unescape(one[1]).partition("?")[0] == action), None)
        if found is None:
            return None
        read = next(one for one in PageReader(page.body).forms if one.action.partition("?")[0] == action)
        folded = {
            dict(_ATTRIBUTE.findall(control[1])).get("name", "")
            for part in _DETAILS.findall(found[0])
            for control in _CONTROL.findall(part)
        }
        return cls(unescape(found[1]), dict(read.fields), _DETAILS.sub("", found[0]), frozenset(folded - {""}))

    def filled(self, word: str) -> Iterator[dict[str, str]]:
        """What somebody sends who fills in everything in sight, once for each card. `word` is what they type where any word will do."""
        typed, cards, words = dict(self.sent), list[tuple[str, str]](), set[str]()
        for kind, given, inner in _CONTROL.findall(self.in_sight):
            attributes = dict(_ATTRIBUTE.findall(given))
            name, of = attributes.get("name", ""), attributes.get("type", "text")
            if not name or of == "hidden" or typed.get(name):
                continue
            if of == "radio":
                cards.append((name, unescape(attributes["value"])))
            elif of == "checkbox":
                typed.setdefault(name, unescape(attributes.get("value", "yes")).split(" ")[0])
            elif kind == "select":
                typed[name] = unescape(next(iter(_OPTION.findall(inner)), ""))
            elif attributes.get("inputmode") in {"numeric", "decimal"}:
                typed[name] = "5"
            else:
                typed[name] = next((text for part, text in _TYPED if part in name), "")
                words |= set() if typed[name] else {name}
        sent = [{**typed, name: value} for name, value in cards] or [typed]
        yield from ({**one, **dict.fromkeys(words, f"{word}{number}")} for number, one in enumerate(sent))


def _forms(readers: Readers) -> Iterator[tuple[Endpoint, Reader]]:
    for of_organization, reader in ((True, readers.owner), (False, readers.governor)):
        yield from ((one, reader) for one in pages_of("GET", organization=of_organization) if one.path.endswith("/~new"))


async def test_no_form_folds_a_field_without_which_it_cannot_be_sent(postern: Postern, people: People) -> None:
    world = World(postern, people)
    readers = Readers(world, people, postern, unlimited(postern))
    faults, refused = set[str](), list[str]()
    for number, (one, reader) in enumerate(_forms(readers)):
        at = address(one, world, world.asked)
        for query in _QUERIES.get(at, ("",)):
            where = f"{at}?{query}" if query else at
            page = await reader.tabs.request("GET", where)
            assert page.status == 200, (where, page.status)
            form = SeenForm.of(page, at)
            assert form is not None, where
            for given in form.filled(f"brandnew{chr(97 + number)}"):
                answer = await reader.tabs.request("POST", form.action, given)
                if answer.status not in {200, 303}:
                    named = set(_AT_FAULT.findall(answer.body.decode()))
                    refused.append(f"{where}: {answer.status}, {', '.join(sorted(named))}")
                    faults |= {f"{where}: {name}" for name in named & form.folded}
    assert faults - _UNREACHED == set()
    assert len(refused) <= MOST_REFUSED, refused


def test_a_folded_field_that_is_needed_would_be_found() -> None:
    folded = '<form method="post" action="/x"><input name="a"><details class="chosen"><input name="b"></details></form>'
    form = SeenForm.of(Received(200, [], folded.encode()), "/x")
    assert form is not None
    assert (set(form.folded), list(form.filled("word"))) == ({"b"}, [{"a": "word0", "b": ""}])

"""A rule of a field that cannot be read, whoever wrote it into the database: the organization's own pages say so, and whatever shows other
organizations or other fields goes on.
"""

import json
from typing import Any, Final

import pytest

from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.pages.test_field_pages import FIELDS, PLATFORM, FieldPageScene
from tests.http.people import People, Person
from tests.http.signing_in import unlimited

database_url, postern, people = http.database_url, http.postern, http.people
RULES: Final = ([1], {"a": 1}, {"min_length": "x"}, {"choices": 7}, 7, "x")
THEIRS: Final = "/api/organizations/globex"


class SpoiltScene(FieldPageScene):
    """Ada is a member of two organizations. The rule of one field of acme's is none. Ada owns globex."""

    ada: Person

    async def begin(self) -> None:
        self.ada = self.resident(self.acme, "member", "ada")
        self.tenants.join(self.ada, self.tenants.add("globex"), "owner")
        await self.declare("motto", asked_at="sign_in", required=True)
        await self.declare("nick")
        await self.request("POST", f"{THEIRS}/profile-fields", {"key": "desk", "label": "Desk", "kind": "text"}, by=self.ada)
        values = {"organization": "acme", "values": {"motto": "Onward", "nick": "A"}}
        (await self.request("PATCH", "/api/user/profile", values, by=self.ada)).ok()

    async def lost(self) -> list[bool]:
        found: Any = (await self.request("GET", FIELDS, None, by=self.owner)).ok()
        return [one["rule_is_lost"] for one in found]

    def spoil(self, rule: object) -> None:
        self.people.change("update all_profile_fields set rule = %s where key = 'motto'", json.dumps(rule))


@pytest.fixture
async def scene(postern: Postern, people: People, log: CapturedLog) -> SpoiltScene:
    made = SpoiltScene(postern, people, unlimited(postern), log)
    await made.begin()
    return made


@pytest.mark.parametrize("rule", RULES)
async def test_pages_of_people_go_on(scene: SpoiltScene, rule: object) -> None:
    scene.spoil(rule)
    # Not even a required field holds anybody up, since nobody could answer.
    assert not (await scene.sign_in(await scene.newcomer())).place.startswith("/ui/answers")
    shown = await scene.signed_in(scene.ada).tab().open("/ui/details")
    assert shown.shown.status == 200
    assert "Nick" in shown.page.text
    assert "Motto" not in shown.page.text
    told = (await scene.request("GET", "/api/user/profile", None, by=scene.ada)).ok()
    assert "nick" in json.dumps(told)
    assert (await scene.request("GET", f"{THEIRS}/profile-fields", None, by=scene.ada)).status == 200


async def test_values_stay_while_the_rule_is_lost(scene: SpoiltScene) -> None:
    scene.spoil([1])
    values = {"organization": "acme", "values": {"nick": "B"}}
    (await scene.request("PATCH", "/api/user/profile", values, by=scene.ada)).ok()
    refused = await scene.request("PATCH", "/api/user/profile", {"organization": "acme", "values": {"motto": "x"}}, by=scene.ada)
    assert refused.status == 400
    (await scene.request("PATCH", f"{FIELDS}/motto", {"rule": {"max_length": 50}}, by=scene.owner)).ok()
    assert scene.values(scene.ada) == [{"motto": "Onward", "nick": "B"}]


@pytest.mark.parametrize("rule", RULES)
async def test_its_own_pages_say_so(scene: SpoiltScene, rule: object) -> None:
    scene.spoil(rule)
    assert await scene.lost() == [True, False]
    tab = scene.signed_in(scene.owner).tab()
    assert (await tab.open("/ui/o/acme/people/fields")).shown.status == 200
    page = await tab.open("/ui/o/acme/people/fields/motto")
    assert "Limits cannot be read" in page.page.text
    await scene.request("PATCH", f"{FIELDS}/motto", {"rule": {}}, by=scene.owner)
    assert await scene.lost() == [False, False]


@pytest.mark.parametrize("rule", RULES)
async def test_documents_of_all_organizations_go_on(scene: SpoiltScene, rule: object) -> None:
    scene.spoil(rule)
    for place, by in (("/api/organizations/acme", scene.owner), (THEIRS, scene.ada), ("/api/platform", scene.root)):
        told = (await scene.request("GET", f"{place}/configuration", None, by=by)).ok()
        assert told["document"]["postern"] == 1
    assert (await scene.request("GET", PLATFORM, None, by=scene.root)).status == 200

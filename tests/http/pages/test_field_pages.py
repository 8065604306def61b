"""Fields on pages: a page after the sign-in asks for them once, and people see and change theirs in their account."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import uuid4

import pytest

from core.domain.errors import BadRequest
from core.domain.identifiers import FlowId, UserId
from core.domain.identity.flows import Flow, FlowPurpose, SignInRequirements
from core.domain.record.events import Actor
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http.browsing import Tab, Tabs
from tests.http.federation.arriving import Arriving
from tests.http.people import People, Person
from tests.http.signing_in import PASSWORD, unlimited

PAGE: Final = "/ui/answers"
DETAILS: Final = "/ui/details"
FIELDS: Final = "/api/organizations/acme/profile-fields"
PLATFORM: Final = "/api/platform/profile-fields"
ADA: Final = "ada@lovelace.example"


class FieldPageScene(Arriving):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.owner = self.resident(self.acme, "owner")
        self.speaker = self.owner
        self.root = self.people.add("root@example.org", platform_owner=True)

    async def declare(self, key: str, kind: str = "text", *, of_installation: bool = False, **more: Any) -> None:
        body = {"key": key, "label": key.title(), "kind": kind, "written_by": ["person"], **more}
        where, by = (PLATFORM, self.root) if of_installation else (FIELDS, self.owner)
        assert (await self.request("POST", where, body, by=by)).status == 201

    async def newcomer(self, email: str = ADA, *, member: bool = True) -> Person:
        person = await self.people.with_password(PASSWORD, email)
        return self.tenants.join(person, self.acme) if member else person

    async def sign_in(self, person: Person, place: str = "/ui/sign-in") -> Tab:
        tab = await Tabs(unlimited(self.postern)).tab().open(place)
        await tab.send(email=person.email)
        return await tab.send(password=PASSWORD)

    def values(self, person: Person) -> list[dict[str, Any]]:
        return [
            one["told"]
            for one in self.people.rows(
                "select jsonb_object_agg(fields.key, profile_values.values -> fields.id::text) as told from profile_values"
                " join profile_fields as fields on profile_values.values ? fields.id::text where user_id = %s"
                " group by profile_values.org_id order by profile_values.org_id nulls first",
                person.user,
            )
        ]


@pytest.fixture
def scene(postern: Postern, people: People, log: CapturedLog) -> FieldPageScene:
    return FieldPageScene(postern, people, unlimited(postern), log)


async def test_a_page_asks_once_and_keeps_the_answers(scene: FieldPageScene) -> None:
    ada = await scene.newcomer()
    await scene.declare("motto", of_installation=True, asked_at="sign_in")
    await scene.declare("grade", "number", asked_at="sign_in", rule={"minimum": 1, "maximum": 5})
    await scene.declare("tags", "list", asked_at="sign_in")
    await scene.declare("late", asked_at="registration")
    await scene.declare("silent")
    tab = await scene.sign_in(ada)
    assert tab.place.startswith(f"{PAGE}?flow=")
    said = tab.page.text
    assert "Motto" in said
    assert "Grade" in said
    assert "Acme asks for this" in said
    assert "Silent" not in said
    assert "Late" not in said
    names = ["/motto", "acme/grade", "acme/tags"]
    await tab.send(fields=names, values=["Count", "9", "one\n\n two \n"])
    assert tab.shown.status == 400
    assert "Grade: Enter a number from 1 to 5" in tab.page.text
    assert "one" in tab.page.forms[0].fields["values"]
    assert scene.values(ada) == []
    await tab.send(fields=names, values=["Count", "3", "one\n\n two \n"])
    assert tab.place == "/ui"
    assert scene.values(ada) == [{"motto": "Count"}, {"grade": 3, "tags": ["one", "two"]}]
    assert (await scene.sign_in(ada)).place == "/ui"
    told = [(one["organization_id"], one["details"]["keys"]) for one in scene.told("audit_log") if one["name"] == "user.fields.updated"]
    assert told == [(None, ["motto"]), (scene.acme.id, ["grade", "tags"])]
    # A field that comes later is asked for alone.
    await scene.declare("hired", "date", asked_at="sign_in")
    tab = await scene.sign_in(ada)
    assert "Hired" in tab.page.text
    assert "Grade" not in tab.page.text


async def test_not_now_is_an_answer_unless_a_field_is_required(scene: FieldPageScene) -> None:
    ada = await scene.newcomer()
    await scene.declare("nickname", asked_at="sign_in")
    tab = await scene.sign_in(ada, "/ui/sign-in?to=/ui/sessions")
    assert "Not now" in tab.page.text
    await tab.send(fields=["acme/nickname"], values=["x"], answer="later")
    assert tab.place == "/ui/sessions"
    assert scene.values(ada) == []
    assert (await scene.sign_in(ada)).place == "/ui"
    await scene.declare("legal_name", asked_at="sign_in", required=True)
    for sent in ({"answer": "later"}, {}, {"fields": ["acme/legal_name"], "values": [" "]}):
        tab = await scene.sign_in(ada)
        assert "Not now" not in tab.page.text
        await tab.send(**sent)
        assert tab.shown.status == 400
        assert "Answer this question" in tab.page.text
    await tab.send(fields=["acme/legal_name"], values=["Ada"])
    assert tab.place == "/ui"
    assert (await scene.sign_in(ada)).place == "/ui"
    assert scene.values(ada) == [{"legal_name": "Ada"}]


async def test_answers_that_no_page_has_read_lack_no_required_field_either(scene: FieldPageScene) -> None:
    ada = await scene.newcomer()
    await scene.declare("legal_name", asked_at="sign_in", required=True)
    await scene.declare("nickname", asked_at="sign_in")
    values, user, now = scene.postern.tenancy.profile_values, UserId(ada.user), datetime.now(UTC)
    flow = Flow(FlowId(uuid4()), FlowPurpose.ACCOUNT, {}, SignInRequirements(), now, now + timedelta(hours=1))
    asked = await values.asked(user, flow)
    for given in ({}, {"acme": {"nickname": "Countess"}}, {"acme": {"legal_name": "", "nickname": "Countess"}}):
        with pytest.raises(BadRequest, match="legal_name: this field is required"):
            await values.answer(user, flow, asked, given, Actor(user))
    assert scene.values(ada) == []
    assert await values.asked(user, flow) == asked


async def test_a_form_sent_twice_or_for_other_fields_changes_nothing_more(scene: FieldPageScene) -> None:
    ada = await scene.newcomer()
    await scene.declare("nickname", asked_at="sign_in")
    await scene.declare("department", written_by=["administrator"])
    await scene.declare("motto", of_installation=True)
    tab = await scene.sign_in(ada)
    flow = tab.place.partition("flow=")[2]
    token = tab.page.forms[0].fields["form_token"]
    sent = {"flow": flow, "form_token": token, "fields": ["acme/nickname", "acme/department", "/motto", "globex/x"], "values": list("abcd")}
    for _ in range(2):
        answer = await tab.tabs.request("POST", f"{PAGE}?flow={flow}", sent)
        assert (answer.status, answer.header("location")) == (303, "/ui")
    assert scene.values(ada) == [{"nickname": "a"}]
    assert (await tab.tabs.request("GET", f"{PAGE}?flow={flow}")).header("location") == "/ui"


async def test_a_newcomer_on_the_way_to_an_application_answers_its_organization_and_still_consents(scene: FieldPageScene) -> None:
    ada = await scene.newcomer(member=False)
    await scene.declare("company", asked_at="registration", required=True)
    scene.tenants.add("globex")
    tab = await scene.sign_in(ada, scene.asking())
    assert tab.place.startswith(PAGE)
    assert "Acme asks for this information. It stores your answers and sees your email address" in tab.page.text
    await tab.send(fields=["acme/company"], values=["Engines"])
    assert tab.place.startswith("/ui/consent")
    assert scene.values(ada) == [{"company": "Engines"}]
    (tie,) = scene.people.rows("select own_since, first_login_at from service_users where user_id = %s", ada.user)
    assert tie == {"own_since": None, "first_login_at": None}
    # Elsewhere nobody asks for it.
    assert (await scene.sign_in(ada)).place == "/ui"


async def test_a_newcomer_who_answers_nothing_is_not_tied_to_the_organization_by_it(scene: FieldPageScene) -> None:
    ada = await scene.newcomer(member=False)
    await scene.declare("company", asked_at="registration")
    tab = await scene.sign_in(ada, scene.asking())
    assert tab.place.startswith(PAGE)
    await tab.send(fields=["acme/company"], values=["Engines"], answer="later")
    assert tab.place.startswith("/ui/consent")
    assert scene.values(ada) == []
    assert scene.people.rows("select user_id from service_users") == []


async def test_an_application_for_members_asks_nobody_else(scene: FieldPageScene) -> None:
    ada = await scene.newcomer(member=False)
    await scene.declare("company", asked_at="sign_in", required=True)
    scene.set(scene.app, sign_in_policy="members")
    tab = await scene.sign_in(ada, scene.asking())
    assert not tab.place.startswith(PAGE)
    assert scene.people.rows("select user_id from service_users") == []


async def test_an_organization_that_merely_lists_somebody_asks_after_the_confirmation(scene: FieldPageScene) -> None:
    ada = await scene.newcomer(member=False)
    scene.tenants.join(ada, scene.acme, listed=True)
    await scene.declare("nickname", asked_at="sign_in")
    tab = await scene.sign_in(ada)
    assert tab.place.startswith("/ui/confirm-membership")
    await tab.send(answers="later")
    assert tab.place == "/ui"
    tab = await scene.sign_in(ada)
    await tab.send(answers=f"yes:{scene.acme.id}")
    assert tab.place.startswith(PAGE)
    await tab.send(fields=["acme/nickname"], values=["x"])
    assert tab.place == "/ui"


async def test_where_nothing_is_asked_the_sign_in_waits_for_nothing(scene: FieldPageScene) -> None:
    ada = await scene.newcomer()
    await scene.declare("silent")

    def trips() -> list[int]:
        return [line["db_round_trips"] for line in scene.log.events("request") if line["method"] == "POST"]

    await scene.sign_in(ada)
    before = len(trips())
    assert (await scene.sign_in(ada, "/ui/sign-in?to=/ui/sessions")).place == "/ui/sessions"
    usual = trips()[before:]
    await scene.declare("asked", asked_at="sign_in")
    before = len(trips())
    assert (await scene.sign_in(ada, "/ui/sign-in?to=/ui/sessions")).place.startswith(PAGE)
    assert trips()[before:] == usual


async def test_people_see_and_change_what_is_kept_of_them(scene: FieldPageScene) -> None:
    ada = await scene.newcomer()
    tab = await scene.sign_in(ada)
    assert b"/ui/details" not in (await tab.open("/ui/profile")).shown.body
    assert "No additional information" in (await tab.open(DETAILS)).page.text
    await scene.declare("nickname")
    await scene.declare("member", "boolean", written_by=["administrator"])
    path = f"/api/organizations/acme/users/{ada.user}/profile"
    assert (await scene.request("PATCH", path, {"values": {"member": True}})).status == 200
    assert b"/ui/details" in (await tab.open("/ui/profile")).shown.body
    assert "Member Yes" in (await tab.open(DETAILS)).page.text
    await tab.send(1, fields=["acme/nickname"], values=["x" * 1001])
    assert tab.shown.status == 400
    assert "Nickname: Enter 1 to 1000 characters" in tab.page.text
    await tab.send(1, fields=["acme/nickname", "acme/member"], values=["Ada", "no"])
    assert "Answers saved" in tab.page.text
    assert scene.values(ada) == [{"nickname": "Ada", "member": True}]

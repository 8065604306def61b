"""Rules for risk have a keeper: an organization or the installation. By the doors of one keeper, nobody reads or writes what another one
keeps: its rules, its exceptions, the sign-ins that they met, and what stood in shadow.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import pytest

from core.domain.tenancy.roles import Capability
from core.frozen import Frozen
from entrypoints.bootstrap import Postern
from tests.conftest import CapturedLog
from tests.http import conftest as http
from tests.http.browsing import Tabs
from tests.http.cast import Shops
from tests.http.client import Received, refused
from tests.http.people import People, Person
from tests.http.signing_in import PASSWORD, Browser, unlimited
from tests.http.tenancy.risk.test_risk_policies import policy

database_url, postern, people = http.database_url, http.postern, http.people

KEEPERS: Final = ("acme", "globex", "installation")
# By whose rules they manage. A member manages none.
CALLERS: Final[Mapping[str, str]] = {
    "nobody": "",
    "member": "",
    "owner": "acme",
    "key": "acme",
    "governor": "installation",
    "their owner": "globex",
}
KEY: Final = (Capability.RISK_POLICIES_MANAGE, Capability.RISK_EVENTS_VIEW, Capability.CONNECTIONS_MANAGE)
END: Final = "2100-01-01T00:00:00Z"


class Keeper(Frozen):
    name: str
    api: str
    page: str
    network: str
    """The exception that this keeper alone makes."""
    manager: str
    organization: UUID | None = None

    @property
    def rules(self) -> str:
        return f"{self.api}/risk-policies"

    @property
    def events(self) -> str:
        return f"{self.api}/risk-events"

    @property
    def updated(self) -> tuple[str, UUID | None]:
        """The entry of the audit log."""
        return f"{'platform' if self.organization is None else 'organization'}.risk_policies.updated", self.organization


class KeptRulesScene(Shops):
    """Each keeper has a rule that counts, one in shadow, an exception, and a sign-in that its rule met. All callers have a browser."""

    async def prepare(self) -> "KeptRulesScene":
        self.outsider = self.people.add("outsider@elsewhere.example")
        self.guests = {one.slug: await self.people.with_password(PASSWORD, f"guest@{one.slug}.example") for one in (self.acme, self.globex)}
        self.callers = {
            "member": self.resident(self.acme, "member"),
            "owner": self.resident(self.acme, "owner"),
            "governor": self.people.add("governor@platform.example", platform_owner=True),
            "their owner": self.resident(self.globex, "owner"),
        }
        self.key = self.tenants.management_key(self.acme, self.callers["owner"], KEY)
        self.tabs = {"nobody": Tabs(self.client)}
        for name, person in self.callers.items():
            self.tabs[name] = await self._browser(person)
        keepers = [
            Keeper("acme", "/api/organizations/acme", "/ui/o/acme/sign-in/risk", "203.0.113.1/32", "owner", self.acme.id),
            Keeper("globex", "/api/organizations/globex", "/ui/o/globex/sign-in/risk", "203.0.113.2/32", "their owner", self.globex.id),
            Keeper("installation", "/api/platform", "/ui/platform/risk", "203.0.113.3/32", "governor"),
        ]
        self.keepers = {one.name: one for one in keepers}
        for one in keepers:
            await self._furnish(one)
        for slug, service in (("acme", "shop"), ("globex", "app")):
            assert (await Browser(self.client).login(self.guests[slug], org_slug=slug, service_slug=service)).status == 200
        self.kept = {one.name: (await self.ask(one.manager, "GET", one.rules)).json() for one in keepers}
        self.met = {one.name: (await self.ask(one.manager, "GET", one.events)).json()["risk_events"] for one in keepers}
        return self

    async def _browser(self, person: Person) -> Tabs:
        self.people.change(
            "update users set password_hash = (select password_hash from users where id = %s), email_verified_at = now() where id = %s",
            self.guests["acme"].user,
            person.user,
        )
        tab = await Tabs(self.client).tab().open("/ui/sign-in")
        await tab.send(email=person.email)
        await tab.send(password=PASSWORD)
        return tab.tabs

    async def _furnish(self, keeper: Keeper) -> None:
        counting = policy("tell_person", name=f"Rule of {keeper.name}")
        shadow = policy("refuse", {"networks": ["198.51.100.0/24"]}, name=f"Shadow of {keeper.name}")
        exceptions = [
            {"kind": "network", "value": keeper.network, "ends_at": END},
            {"kind": "person", "value": str(self.outsider.user), "ends_at": END},
        ]
        for counts in (False, True):
            body = {"policies": [{**counting, "counts": counts}, shadow], "exceptions": exceptions}
            answer = await self.ask(keeper.manager, "PUT", keeper.rules, body)
            assert answer.status == 200, answer.body

    async def ask(self, caller: str, method: str, path: str, body: Any = None) -> Received:
        if caller in {"nobody", "key"}:
            return await self.client.request(method, path, body=body, token=self.key if caller == "key" else None)
        return await self.request(method, path, body, by=self.callers[caller])

    def others(self, keeper: Keeper) -> Sequence[Keeper]:
        return [one for one in self.keepers.values() if one is not keeper]

    def marks(self, keeper: Keeper) -> set[str]:
        """What its answers alone say. The installation's rules are asked about all people, so a guest is a mark of an organization."""
        marks = {f"Rule of {keeper.name}", f"Shadow of {keeper.name}", keeper.network.partition("/")[0]}
        return marks | {one["id"] for one in self.kept[keeper.name]["policies"]}

    def strange(self, keeper: Keeper) -> set[str]:
        """What no answer about this keeper's rules may say."""
        marks = {mark for other in self.others(keeper) for mark in self.marks(other)}
        guests = {one.email for slug, one in self.guests.items() if keeper.organization is not None and slug != keeper.name}
        return marks | guests | ({self.outsider.email} if keeper.organization is not None else set())

    def all_marks(self) -> set[str]:
        marks = {mark for one in self.keepers.values() for mark in self.marks(one)}
        return marks | {one.email for one in self.guests.values()} | {self.outsider.email}

    def rows(self) -> dict[str, Any]:
        """By the keeper, all that is kept."""
        stored = self.people.rows("select slug, risk_policies, risk_exceptions, risk_counts_since from organizations")
        (own,) = self.people.rows("select * from installation_risk_policies")
        return {"installation": own, **{str(one["slug"]): one for one in stored}}

    def recorded(self) -> list[tuple[str, UUID | None]]:
        return [(one["action"], one["organization_id"]) for one in self.audited("%.risk_policies.updated")]


@pytest.fixture
async def scene(postern: Postern, people: People, log: CapturedLog) -> KeptRulesScene:
    return await KeptRulesScene(postern, people, unlimited(postern), log).prepare()


def said(answer: Received, marks: set[str]) -> set[str]:
    text = answer.body.decode()
    return {one for one in marks if one in text}


def paths(scene: KeptRulesScene, keeper: Keeper) -> Sequence[str]:
    """Each list also from the newest row of each other keeper on."""
    after = [f"{keeper.events}?after={scene.met[one.name][0]['id']}" for one in scene.others(keeper)]
    return [keeper.rules, f"{keeper.rules}/report", keeper.events, *after]


async def test_every_keeper_has_rows_that_another_one_could_read(scene: KeptRulesScene) -> None:
    for keeper in scene.keepers.values():
        assert [one["policy_name"] for one in scene.met[keeper.name]] == [f"Rule of {keeper.name}"] * len(scene.met[keeper.name])
        text = (await scene.ask(keeper.manager, "GET", keeper.rules)).body.decode()
        assert {one for one in scene.marks(keeper) if one in text} == scene.marks(keeper)
    assert {one["email"] for one in scene.met["installation"]} == {one.email for one in scene.guests.values()}


@pytest.mark.parametrize("caller", CALLERS)
async def test_nobody_reads_what_another_keeper_keeps(scene: KeptRulesScene, caller: str) -> None:
    for keeper in scene.keepers.values():
        for path in paths(scene, keeper):
            answer = await scene.ask(caller, "GET", path)
            if CALLERS[caller] == keeper.name:
                assert answer.status == 200, (path, answer.body)
                assert said(answer, scene.strange(keeper)) == set(), path
            else:
                assert refused(answer)[0] in {401, 403, 404}, path
                assert said(answer, scene.all_marks()) == set(), path
        if caller != "key":
            tab = await scene.tabs[caller].tab().open(keeper.page)
            if CALLERS[caller] == keeper.name:
                assert said(tab.shown, scene.marks(keeper)) == scene.marks(keeper)
                assert said(tab.shown, scene.strange(keeper)) == set()
            else:
                assert tab.place != keeper.page or tab.status in {403, 404}
                assert said(tab.shown, scene.all_marks()) == set()
    if caller == "governor":
        # Whoever keeps the rules of the installation reads of everybody whom an exception leaves out.
        assert scene.outsider.email in (await scene.tabs[caller].tab().open(scene.keepers["installation"].page)).shown.body.decode()


@pytest.mark.parametrize("keeper", KEEPERS)
async def test_nobody_else_writes_what_a_keeper_keeps(scene: KeptRulesScene, keeper: str) -> None:
    at, before, recorded = scene.keepers[keeper], scene.rows(), scene.recorded()
    for caller, own in CALLERS.items():
        if own == keeper:
            continue
        for body in ({"policies": []}, *({**one, "count_since": None} for one in scene.kept.values())):
            given = {name: value for name, value in body.items() if name != "count_since"}
            assert refused(await scene.ask(caller, "PUT", at.rules, given))[0] in {401, 403, 404}
        # The form of a page of their own, sent to this keeper's address.
        if own and caller != "key":
            await _send_forms(scene, scene.keepers[own], at)
    assert (scene.rows(), scene.recorded()) == (before, recorded)


@pytest.mark.parametrize("keeper", KEEPERS)
async def test_a_keeper_writes_its_own_rows_alone_whatever_it_names(scene: KeptRulesScene, keeper: str) -> None:
    at = scene.keepers[keeper]
    before, recorded = scene.rows(), scene.recorded()
    for other in scene.others(at):
        # What counts, or stood in shadow, with another keeper has stood in shadow nowhere here.
        theirs = scene.kept[other.name]["policies"]
        for counts in ([one["counts"] for one in theirs], [True] * len(theirs)):
            policies = [{**one, "counts": counting} for one, counting in zip(theirs, counts, strict=True)]
            assert refused(await scene.ask(at.manager, "PUT", at.rules, {"policies": policies})) == (400, "BAD_REQUEST")
        # A press that names another keeper's rule.
        await _send_forms(scene, at, at, named=str(theirs[1]["id"]))
    assert (scene.rows(), scene.recorded()) == (before, recorded)
    for other in scene.others(at):
        shadow = [{**one, "counts": False} for one in scene.kept[other.name]["policies"]]
        answer = await scene.ask(at.manager, "PUT", at.rules, {"policies": shadow, "exceptions": scene.kept[other.name]["exceptions"]})
        assert answer.status == 200, answer.body
        recorded.append(at.updated)
        after = scene.rows()
        assert {name for name in KEEPERS if after[name] != before[name]} == {keeper}
        assert scene.recorded() == recorded


async def _send_forms(scene: KeptRulesScene, shown: Keeper, at: Keeper, named: str = "") -> None:
    """Sends every form of the page of the rules to the same place of the page `at`, and changes nothing there. `named`: the rule that a
    press names.
    """
    tab = scene.tabs[shown.manager].tab()
    pages = (shown.page, f"{shown.page}/rule", f"{shown.page}/rule?policy={scene.kept[shown.name]['policies'][1]['id']}")
    forms = [one for page in pages for one in (await tab.open(page)).page.forms if one.action.startswith(shown.page)]
    assert {one.action.removeprefix(shown.page) for one in forms} == {"/rule", "/act", "/exceptions"}
    for form in forms:
        step = form.action.removeprefix(shown.page)
        if shown is at and step != "/act":
            continue
        for act in ("count", "first", "remove") if step == "/act" else ("",):
            fields = dict(form.fields)
            if step == "/act":
                fields |= {"act": act, **({"policy": named} if named else {})}
            else:
                fields |= {"name": "From elsewhere", "networks": "10.0.0.0/8"} if step == "/rule" else {}
            answer = await tab.tabs.request("POST", f"{at.page}{step}", fields)
            # A press on a rule that is not there keeps the rules as they are.
            assert answer.status == 303 if shown is at else answer.status in {403, 404}, (form.action, answer.status)

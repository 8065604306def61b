"""What asks the decision point of AuthZEN, and the conditions on its answers.

The suite's fixture has the users `alice` and `bob` and the records `record-1` and `record-2`. In Postern a user's id is a UUID and the
resource is the service whose key asks, so Alice and Bob go by their ids, and the two records are this service by its slug and by its id.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import uuid4

import httpx

from tests.conformance.kit.answers import is_json, is_number
from tests.conformance.kit.installation import AskedServer
from tests.conformance.kit.metadata import is_https
from tests.conformance.kit.outcome import Outcome

ONE: Final = "access_evaluation_endpoint"
SEVERAL: Final = "access_evaluations_endpoint"
SUBJECTS: Final = "search_subject_endpoint"
ACTIONS: Final = "search_action_endpoint"
READ: Final = {"name": "read"}
WRITE: Final = {"name": "write"}
USERS: Final = {"type": "user"}
MOMENT: Final = {"time": "2025-06-27T18:03-07:00", "ip": "192.168.1.1"}
UNKNOWN: Final[Mapping[str, Any]] = {"foo": "bar", "futureField": {"nested": True}}
BROKEN: Final = '{ "subject": { "type": "user", "id": "alice" } , broken'
_TIMES: Final = 3
_MOST_PAGES: Final = 100
Body = Mapping[str, Any]


@dataclass
class Decider:
    installation: AskedServer
    outcome: Outcome
    client: httpx.Client

    def __post_init__(self) -> None:
        """What every module asks of the configuration before it starts."""
        answer = self.client.get("/.well-known/authzen-configuration")
        assert answer.status_code == 200
        assert is_json(answer)
        self.configuration: Mapping[str, Any] = answer.json()
        assert self.configuration["policy_decision_point"] == self.installation.issuer
        for name in {"policy_decision_point", "access_evaluation_endpoint", *self.configuration} - {"capabilities"}:
            is_https(self.configuration, name)
        assert all(value not in {None, ""} for value in self.configuration.values())
        assert all(isinstance(one, str) for one in self.configuration.get("capabilities", []))

    @property
    def alice(self) -> dict[str, Any]:
        return {**USERS, "id": self.installation.alice}

    @property
    def bob(self) -> dict[str, Any]:
        return {**USERS, "id": self.installation.bob}

    @property
    def first(self) -> dict[str, Any]:
        """`record-1`."""
        return {"type": "service", "id": "records"}

    @property
    def second(self) -> dict[str, Any]:
        """`record-2`."""
        return {"type": "service", "id": self.installation.decider}

    def ask(
        self, endpoint: str, body: Body | str | Sequence[Body], *, method: str = "POST", key: str | None = "", **headers: str
    ) -> httpx.Response:
        """`key` is None for no credentials."""
        address = self.configuration[endpoint]
        self.outcome.should("/v1/" in f"{urlsplit(address).path}/", "no version in the path")
        sent = {"accept": "application/json", "content-type": "application/json"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        if key is not None:
            sent["authorization"] = f"Bearer {key or self.installation.key}"
        content = body if isinstance(body, str) else json.dumps(body)
        return self.client.request(method, address, content=content, headers=sent)

    def is_refused(self, answer: httpx.Response, *others: int) -> None:
        assert answer.status_code in {400, *others}, answer.text

    # One evaluation.

    def decides(self, body: Body, decision: bool, **headers: str) -> httpx.Response:
        answer = self.ask(ONE, body, **headers)
        assert self.decision_of(answer) is decision
        return answer

    def decision_of(self, answer: httpx.Response) -> bool:
        assert answer.status_code == 200, answer.text
        told = answer.json()
        assert isinstance(told["decision"], bool)
        assert isinstance(told.get("context", {}), dict)
        return told["decision"]

    # Several evaluations.

    def decides_all(self, body: Body, *decisions: bool, **headers: str) -> httpx.Response:
        """These decisions, and no others. Fewer than the questions only where the request lets a decision end them."""
        answer = self.ask(SEVERAL, body, **headers)
        assert answer.status_code == 200, answer.text
        told = answer.json()
        evaluations = told["evaluations"]
        assert all(isinstance(one["decision"], bool) and isinstance(one.get("context", {}), dict) for one in evaluations)
        if body.get("options", {}).get("evaluations_semantic", "execute_all") == "execute_all":
            assert len(evaluations) == len(body["evaluations"])
        assert [one["decision"] for one in evaluations] == list(decisions)
        self.outcome.should("decision" not in told, "a decision beside the evaluations")
        return answer

    # Searches.

    def finds(self, endpoint: str, body: Body, expected: Sequence[Body], **headers: str) -> httpx.Response:
        """What is expected is among what is found."""
        answer = self.ask(endpoint, body, **headers)
        found = self.results_of(endpoint, answer, body)
        assert all(one in found for one in expected)
        return answer

    def results_of(self, endpoint: str, answer: httpx.Response, body: Body) -> Sequence[Body]:
        assert answer.status_code == 200, answer.text
        told = answer.json()
        results: list[dict[str, Any]] = told["results"]
        for one in results:
            if endpoint == SUBJECTS:
                assert one["id"]
                assert one["type"] == body["subject"]["type"]
            else:
                assert isinstance(one["name"], str)
                assert one["name"]
        assert isinstance(told.get("context", {}), dict)
        self._page_of(told)
        return results

    def _page_of(self, told: Body) -> None:
        if "page" in told:
            page = told["page"]
            assert isinstance(page["next_token"], str)
            assert all(is_number(page[name]) and page[name] >= 0 for name in ("count", "total") if name in page)
            assert isinstance(page.get("properties", {}), dict)
            self.outcome.should(next(iter(told)) == "page", "the page is not the first member")

    def finds_in_pages(self, endpoint: str, body: Body, expected: Sequence[Body]) -> None:
        found: list[Body] = []
        token = ""
        for _ in range(_MOST_PAGES):
            page = {**body["page"], **({"token": token} if token else {})}
            answer = self.ask(endpoint, {**body, "page": page})
            found += self.results_of(endpoint, answer, body)
            token = answer.json().get("page", {}).get("next_token", "")
            if not token:
                break
        assert not token
        assert all(one in found for one in expected)


def request_id() -> str:
    return f"conformance-{uuid4()}"


def is_echoed(answer: httpx.Response, sent: str) -> None:
    assert answer.headers["X-Request-ID"] == sent


def is_the_same(answers: Sequence[httpx.Response]) -> None:
    """The bodies agree, but for the tokens of pages, which nobody reads."""
    bodies = [answer.json() for answer in answers]
    for body in bodies:
        if isinstance(body.get("page"), dict):
            body["page"].pop("next_token", None)
    assert len(bodies) == _TIMES
    assert all(body == bodies[0] for body in bodies)


TIMES: Final = range(_TIMES)

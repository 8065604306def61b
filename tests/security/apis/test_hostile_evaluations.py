"""Questions about rights (OpenID AuthZEN) that are larger, or of another form, than any that is meant."""

from typing import Any, Final

import pytest

from core.domain.services.rights import MOST_EVALUATIONS
from tests.http import conftest as http
from tests.http.client import refused
from tests.http.services import conftest as services
from tests.http.services.governing import BAD_REQUEST, Government
from tests.http.services.test_access_evaluations import SHOP, ask, question, reader, user

database_url, postern, people, client = http.database_url, http.postern, http.people, http.client
government = services.government

MANY: Final = 10_000


async def test_ten_thousand_questions_are_refused_before_any_is_decided(government: Government) -> None:
    await reader(government)
    whole = question(government.end_user)
    answer = await ask(government, "evaluations", {"evaluations": [whole] * MANY})
    assert answer.status in {400, 413}
    assert (await ask(government, "evaluations", {"evaluations": [whole] * (MOST_EVALUATIONS + 1)})).status == 400
    assert len((await ask(government, "evaluations", {"evaluations": [whole] * MOST_EVALUATIONS})).ok()["evaluations"]) == MOST_EVALUATIONS


async def test_ten_thousand_members_decide_nothing(government: Government) -> None:
    await reader(government)
    members = {f"m{number}": number for number in range(MANY)}
    for name in ("context", "subject", "action", "resource"):
        for action, may in (("read", True), ("write", False)):
            whole = question(government.end_user, action)
            answer = await ask(government, "evaluation", {**whole, name: {**members, **whole.get(name, {})}})
            assert answer.status == 413 or answer.ok()["decision"] is may


@pytest.mark.parametrize("path", ["evaluation", "evaluations", "search/subject", "search/action"])
async def test_arrays_for_objects_and_objects_for_arrays(government: Government, path: str) -> None:
    await reader(government)
    whole = question(government.end_user)
    changes: list[dict[str, Any]] = [
        {"subject": [user(government.end_user)]},
        {"resource": [SHOP]},
        {"resource": {**SHOP, "id": {"id": "shop"}}},
    ]
    if path != "search/action":
        # A search looks at nothing that it is to find.
        changes += [{"action": ["read"]}, {"action": {"name": ["read"]}}]
    if path == "evaluations":
        changes += [{"evaluations": {"0": whole}}, {"evaluations": [[whole]]}, {"evaluations": "all"}, {"options": ["deny_on_first_deny"]}]
    for changed in changes:
        assert refused(await ask(government, path, {**whole, **changed})) == BAD_REQUEST, changed
    for body in ([whole], "all", 7, None):
        assert refused(await ask(government, path, body)) == BAD_REQUEST, body

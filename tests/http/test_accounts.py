"""The caller's own account over HTTP."""

from tests.http.client import Client
from tests.http.people import People


async def test_the_profile_is_the_callers(client: Client, people: People) -> None:
    person = people.add("Ada@example.org")
    answer = await client.get("/api/user", token=await people.token(person))
    assert answer.status == 200
    assert answer.json() == {"id": str(person.user), "email": "Ada@example.org", "org": "", "service": ""}
    assert answer.header("cache-control") == "no-store"

"""The published keys."""

import jwt

from tests.http.client import Client
from tests.http.people import BASE_URL, People


async def test_a_stranger_can_verify_our_tokens_with_the_published_keys(client: Client, people: People) -> None:
    person = people.add()
    token = await people.token(person)
    answer = await client.get("/.well-known/jwks.json")
    assert (answer.status, answer.header("cache-control")) == (200, "public, max-age=300")
    published = {key["kid"]: key for key in answer.json()["keys"]}
    assert {key["alg"] for key in published.values()} == {"ES256", "RS256"}
    key = jwt.PyJWK(published[jwt.get_unverified_header(token)["kid"]])
    claims = jwt.decode(token, key, algorithms=["ES256"], issuer=BASE_URL, audience="platform")
    assert claims["sub"] == str(person.user)


async def test_nothing_private_is_published(client: Client) -> None:
    for key in (await client.get("/.well-known/jwks.json")).json()["keys"]:
        assert not {"d", "p", "q", "dp", "dq", "qi", "k"} & set(key)


async def test_the_keys_are_unavailable_while_the_database_is_away(lonely_client: Client) -> None:
    answer = await lonely_client.get("/.well-known/jwks.json")
    assert (answer.status, answer.error_code) == (503, "SERVICE_UNAVAILABLE")
    assert answer.header("retry-after")
    assert answer.header("cache-control") == "no-store"

"""`/docs/errors` explains an error that somebody pastes, and keeps and repeats nothing of it."""

import pytest

from core.domain.federation.explained_errors import EXPLAINED
from entrypoints.http.description.documentation import EXPLAINED_IN
from tests.http.browsing import Tabs
from tests.http.client import Client


async def _paste(client: Client, text: str) -> tuple[int, str]:
    answer = await Tabs(client).request("POST", "/docs/errors", {"text": text})
    return answer.status, answer.body.decode()


async def test_a_pasted_error_is_explained_and_not_repeated(client: Client) -> None:
    status, body = await _paste(client, "OAuthError: invalid_client: secret <script>alert(1)</script> s3cr3t-of-ours")
    assert status == 200
    found = body.partition('id="explained"')[2].partition("</section>")[0]
    assert "invalid_client" in found
    assert "Client secrets" in found
    assert "s3cr3t" not in body
    assert "<script>alert" not in body
    status, body = await _paste(client, "nothing of the kind")
    assert (status, "not in the list below" in body) == (200, True)


async def test_the_page_lists_all_errors_and_takes_nothing_from_its_address(client: Client) -> None:
    answer = await client.request("GET", "/docs/errors?text=invalid_client")
    body = answer.body.decode()
    assert answer.status == 200
    assert 'id="redirect-uri"' in body
    assert 'id="explained"' not in body
    assert "/docs/errors" in (await client.request("GET", "/docs")).body.decode()


async def test_each_error_leads_to_its_chapter(client: Client) -> None:
    """A new error without a chapter fails here."""
    assert set(EXPLAINED_IN) == {one.name for one in EXPLAINED}
    body = (await client.request("GET", "/docs/errors")).body.decode()
    for error, chapter in EXPLAINED_IN.items():
        assert f'<dd><a href="/docs/{chapter}">' in body, error
        assert (await client.request("GET", f"/docs/{chapter}")).status == 200, chapter
    _, found = await _paste(client, "invalid_client")
    assert '<a href="/docs/services">' in found.partition('id="explained"')[2].partition("</section>")[0]


@pytest.mark.parametrize(("text", "status"), [("a" * 17_000, 413), ("a" * 1_000_000, 413), ("a" * 16_000, 200), ("", 200)])
async def test_a_paste_is_bounded(client: Client, text: str, status: int) -> None:
    assert (await _paste(client, text))[0] == status

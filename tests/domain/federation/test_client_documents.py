"""Documents in which clients describe themselves: what people have agreed to changes with what a document says."""

import json
from typing import Any, Final

import pytest

from core.domain.federation.oauth.client_documents import ClientDocument, client_document

ADDRESS: Final = "https://client.example/app"
CALLBACK: Final = "https://client.example/callback"


def document(**said: Any) -> ClientDocument:
    told = {"client_id": ADDRESS, "client_name": "App", "redirect_uris": [CALLBACK], **said}
    return client_document(ADDRESS, 200, {"content-type": "application/json"}, json.dumps(told).encode())


@pytest.mark.parametrize(
    "said",
    [
        {"dpop_bound_access_tokens": True},
        {"frontchannel_logout_uri": "https://client.example/gone"},
        {"frontchannel_logout_uri": "https://client.example/gone", "frontchannel_logout_session_required": True},
        {"redirect_uris": ["https://client.example/other"]},
        {"initiate_login_uri": "https://client.example/sign-in"},
    ],
)
def test_people_are_asked_again_when_a_document_says_something_else(said: dict[str, Any]) -> None:
    assert document(**said).digest != document().digest
    assert document(**said).digest == document(**said).digest
    without = {name: value for name, value in said.items() if name != "frontchannel_logout_session_required"}
    assert (document(**without).digest == document(**said).digest) is (without == said)


def test_a_document_that_says_none_of_what_came_later_keeps_its_digest() -> None:
    assert document(dpop_bound_access_tokens=False, frontchannel_logout_session_required=True).digest == document().digest

"""An organization with everything that organizations have, taken to an empty installation by its document."""

from copy import deepcopy
from typing import Any, Final

import pytest

from core.domain.mail import Email
from entrypoints.bootstrap import Postern
from entrypoints.cli.configuration.operators import DocumentOperator
from entrypoints.http.routes.configuration.applying import Configuring
from entrypoints.http.routes.configuration.exporting import exported, wholly
from tests.http.configuration.documents import resolve
from tests.http.people import People
from tests.security.organizations.world import ASKED, World

OWNER: Final = "ada@people.example"
SECRET: Final = "env:MOVED_SECRET"


async def document_of(postern: Postern) -> dict[str, Any]:
    return wholly(await exported(DocumentOperator(postern, {}), [ASKED], with_platform=True))


def with_secrets(document: dict[str, Any]) -> dict[str, Any]:
    """The document with a reference wherever a secret is needed: no export has them."""
    sent = deepcopy(document)
    held = sent["organizations"][ASKED]
    held["mail_server"]["password"] = SECRET
    for one in held["oauth_credentials"]["entries"].values():
        one["client_secret"] = SECRET
    for one in held["upstream_providers"]["entries"].values():
        if one["kind"] == "oidc":
            one["client_secret"] = SECRET
    return sent


async def test_an_export_makes_the_same_organization_on_an_empty_installation(
    postern: Postern, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answers(_self: object, _issuer: str) -> None:
        """The provider of OpenID Connect is there."""

    World(postern, people)
    monkeypatch.setattr(type(postern.tenancy.upstream_providers.protocols), "check", answers)
    monkeypatch.setenv("MOVED_SECRET", "a secret that no document has")
    # A logo is fetched when it is set, and its server does not exist.
    people.change("update organizations set logo_url = null, primary_color = '#a01040', help_url = 'https://globex.example/help'")
    # The world has a row of every table for its services; no service there is of the type proxy (`test_documents_applied` has one).
    people.change("delete from proxies where service_id not in (select id from services where service_type = 'proxy')")
    before = await document_of(postern)
    people.change("delete from terms")
    people.change("delete from all_organizations")
    people.change("delete from all_profile_fields")
    assert await postern.platform.configurations.slugs() == []
    configuring = Configuring(DocumentOperator(postern, {ASKED: Email(OWNER)}))
    planned = await configuring.plan(with_secrets(before), resolve)
    assert [(one.steps, one.message) for one in planned.problems] == []
    applied = await configuring.apply(planned)
    assert [(str(one.change.place), one.refusal.message) for one in applied.refused] == []
    assert await document_of(postern) == before
    planned = await configuring.plan(before, resolve)
    assert planned.is_empty

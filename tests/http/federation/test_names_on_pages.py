"""Pages that say whose account it is: the name stands beside the address, and never in its place."""

from collections.abc import Mapping
from typing import Any, Final

import pytest

from core.domain.identifiers import UserId
from core.domain.identity.profiles import OwnProfileChange
from core.domain.record.events import Actor
from tests.http.federation.arriving import Arriving
from tests.http.people import Person

_SAID: Final = "Ada Lovelace ( ada@example.org )"
_ROOMS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "consent": ("Your account Ada Lovelace ada@example.org", {}),
    "choose an account": (f"Continue as {_SAID}", {"prompt": "select_account"}),
    "turned away": (f"{_SAID} is not a member", {"prompt": "consent"}),
    "listed": (f"added your account {_SAID} as a member", {}),
    "second factor required": (f"your account {_SAID}", {}),
    "sign out": (f"You are signed in as {_SAID}", {"address": "/oauth/logout"}),
    "open a service provider": (f"You continue as {_SAID}", {"address": "/ui/open/acme/app"}),
}


async def named(scene: Arriving, person: Person, change: OwnProfileChange) -> None:
    user = UserId(person.user)
    await scene.postern.identity.profiles.change(user, change, Actor(user=user), username=None)


def furnish(scene: Arriving, ada: Person, room: str) -> None:
    """Arranges what leads the person to the page."""
    match room:
        case "turned away":
            scene.set(scene.app, sign_in_policy="members")
        case "listed":
            scene.tenants.join(ada, scene.acme, listed=True)
            scene.set(scene.app, trusted=True)
        case "second factor required":
            scene.tenants.join(ada, scene.acme)
            scene.people.change("update all_organizations set mfa_required_since = now() - interval '30 days', mfa_grace_days = 0")


@pytest.mark.parametrize("room", _ROOMS)
async def test_a_page_names_the_person_beside_the_address(scene: Arriving, ada: Person, room: str) -> None:
    said, asked = _ROOMS[room]
    address = asked.get("address")
    furnish(scene, ada, room)
    trips, text = [], ""
    for change in (OwnProfileChange(), OwnProfileChange(given_name="Ada", family_name="Lovelace")):
        await named(scene, ada, change)
        tab = await scene.signed_in(scene.people.session_of(ada)).tab().open(address or scene.asking(**asked))
        trips.append(scene.log.events("request")[-1]["db_round_trips"])
        text = tab.page.text
        assert ada.email in text.replace(" ", "")
        assert ("Lovelace" in text) == (change.family_name == "Lovelace"), text
    assert said in text, text
    assert trips[0] == trips[1]


async def test_the_page_that_asks_for_consent_shows_the_applications_logo(scene: Arriving, ada: Person) -> None:
    scene.set(scene.app, logo_digest="0f" * 32)
    tab = await scene.signed_in(scene.people.session_of(ada)).tab().open(scene.asking())
    assert f'<img class="application" src="/logos/{"0f" * 32}" alt="">' in tab.shown.body.decode()
    (form,) = [form for form in tab.page.forms if "flow" in form.fields]
    await tab._go("POST", form.action, {**form.fields, "answer": "allow"})
    listed = await scene.signed_in(scene.people.session_of(ada)).tab().open("/ui/applications")
    assert f'src="/logos/{"0f" * 32}"' in listed.shown.body.decode()
    scene.set(scene.app, logo_digest=None)
    tab = await scene.signed_in(scene.people.session_of(ada)).tab().open("/ui/applications")
    assert 'class="application"' not in tab.shown.body.decode()

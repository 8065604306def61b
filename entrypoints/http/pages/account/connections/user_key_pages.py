"""`/ui/keys/{organization}/{service}`: the keys that a person has for the API of an application, which links to this page."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final
from uuid import UUID

from core.domain.errors import BadRequest, Forbidden, NotFound, Refusal, Unauthorized
from core.domain.identifiers import UserKeyId
from core.domain.identity.proofs import StepUp
from core.domain.services.api_keys import LONGEST_LIFE
from core.domain.services.resource_servers import LONGEST_SCOPE, MOST_SCOPES
from core.domain.services.user_keys import MOST_KEYS, UserKeyPlace, WantedUserKey
from core.domain.tenancy.management_keys import LONGEST_KEY_NAME
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import Form
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.browsers import BROWSER, BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.errors import status_of
from entrypoints.http.machinery.fields import ServicePath
from entrypoints.http.machinery.limits import CREDENTIALS, PAGE_LOADS
from entrypoints.http.pages.account import APPLICATIONS, NO_ERRORS, AnyCall, Done, Page, ask, back_to, show
from entrypoints.http.pages.declaring import WITH_FORM, page

_KEYS: Final = "/ui/keys/{org_slug}/{service_slug}"
_NEW: Final = f"{_KEYS}/new"
_END: Final = f"{_KEYS}/{{user_key_id}}/end"
_DONE: Final = {"ended": "user_keys.done_ended"}
_FIELDS: Final = frozenset({"name", "scopes", "expires_in_days"})
# Those that have expired are shown for a while, too.
_SHOWN: Final = 2 * MOST_KEYS


class UserKeyPagePath(ServicePath, frozen=True):
    user_key_id: UUID


class NewUserKeyForm(BoundForm, frozen=True, kw_only=True):
    name: str = ""
    scopes: Sequence[str] = ()
    expires_in_days: str = ""

    def wanted(self) -> WantedUserKey:
        """Raises `BadRequest`."""
        days = self.expires_in_days.strip()
        if days and not (days.isascii() and days.isdecimal() and len(days) < LONGEST_SCOPE):
            raise BadRequest("expires_in_days: must be a number", words="key_life", values={"most": LONGEST_LIFE})
        return WantedUserKey(name=self.name, scopes=self.scopes, expires_in_days=int(days) if days else None)


@page.get(_KEYS, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(NotFound,))
async def show_user_keys(call: Call[None, Done, ServicePath], postern: Postern) -> bytes:
    """List your keys for the API of an application"""
    place = await _place(call, postern)
    listed = await postern.services.user_keys.list_own(call.caller, place, None, _SHOWN)
    return show(
        call,
        postern,
        "connections/user_keys.html",
        APPLICATIONS,
        place=place,
        keys=[one.key for one in listed.keys],
        address=_address(place),
        obstacle=_obstacle(place),
        done=_DONE.get(call.query.done, ""),
    )


@page.get(_NEW, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, step_up=StepUp.ACCOUNT, refuses=(NotFound,))
async def show_new_user_key(call: Call[None, None, ServicePath], postern: Postern) -> bytes:
    """See the form that makes a key"""
    return _form(call, postern, await _place(call, postern))


@page.post(
    _NEW,
    caller=BROWSER,
    limit=CREDENTIALS,
    policy=WITH_FORM,
    step_up=StepUp.ACCOUNT,
    accepts=Form(most_fields=2 * MOST_SCOPES),
    refuses=(NotFound, Forbidden, Unauthorized),
)
async def make_user_key(call: Call[NewUserKeyForm, None, ServicePath], postern: Postern) -> Page:
    """Make a key for the API of an application

    The key is shown once.
    """
    place, form = await _place(call, postern), call.body
    keys = postern.services.user_keys
    try:
        made = await keys.create_own(call.caller, place.organization_slug, place.service_slug, form.wanted(), call.actor)
    except (BadRequest, Forbidden) as refusal:
        field = refusal.message.partition(":")[0]
        return Answer(_form(call, postern, place, form, {field if field in _FIELDS else "": refusal}), status_of(refusal))
    answer = show(
        call,
        postern,
        "connections/user_key_made.html",
        APPLICATIONS,
        place=place,
        key=made.key,
        secret=made.text.reveal(),
        back=_address(place),
    )
    return Answer(answer, 200)


@page.get(_END, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(NotFound,))
async def ask_to_end_user_key(call: Call[None, None, UserKeyPagePath], postern: Postern) -> bytes:
    """Ask before a key ends"""
    place = await _place(call, postern)
    key = await postern.services.user_keys.get_own(call.caller, place, UserKeyId(call.path.user_key_id))
    values = {"called": key.name, "application": place.service_name}
    back = _address(place)
    action = f"{back}/{key.id}/end"
    return ask(call, postern, APPLICATIONS, action, name="user_key_end", button="user_key_end.button", back=back, values=values)


@page.post(_END, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(NotFound,))
async def end_own_user_key(call: Call[BoundForm, None, UserKeyPagePath], postern: Postern) -> Page:
    """End a key

    Ending a key that no longer exists is no error.
    """
    place = await _place(call, postern)
    with suppress(NotFound):
        await postern.services.user_keys.revoke_own(call.caller, place, UserKeyId(call.path.user_key_id), call.actor)
    return back_to(_address(place), "ended")


async def _place(call: AnyCall, postern: Postern) -> UserKeyPlace:
    return await postern.services.user_keys.place(call.caller, call.path.org_slug, call.path.service_slug)


def _address(place: UserKeyPlace) -> str:
    return f"/ui/keys/{place.organization_slug}/{place.service_slug}"


def _obstacle(place: UserKeyPlace) -> str:
    """The text key of the reason why the person can make no key now. Empty when the person can."""
    try:
        place.require_maker()
    except (Forbidden, NotFound) as refusal:
        return f"refusals.{refusal.words}"
    return ""


def _form(
    call: AnyCall, postern: Postern, place: UserKeyPlace, form: NewUserKeyForm | None = None, errors: Mapping[str, Refusal] = NO_ERRORS
) -> bytes:
    return show(
        call,
        postern,
        "connections/user_key_new.html",
        APPLICATIONS,
        place=place,
        name="" if form is None else form.name,
        scopes=() if form is None else form.scopes,
        days="" if form is None else form.expires_in_days,
        action=f"{_address(place)}/new",
        back=_address(place),
        obstacle=_obstacle(place),
        longest=LONGEST_KEY_NAME,
        errors=errors,
    )

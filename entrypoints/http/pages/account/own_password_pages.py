"""`/ui/password`: a first password, or another one."""

from typing import Final

from core.domain.errors import BadRequest, NotFound, Overloaded, RateLimited, Refusal, Unauthorized
from core.domain.identity.accounts import LONGEST_PASSWORD, SHORTEST_PASSWORD
from core.domain.secrets import Password
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer
from entrypoints.http.machinery.browsers import BROWSER, BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.limits import PAGE_LOADS
from entrypoints.http.pages.account import PASSWORD, AnyCall, Done, Page, back_to, show
from entrypoints.http.pages.declaring import WITH_FORM, page

# The field that a refusal is about, where it is not the new password.
_FIELDS: Final = {"passwords_differ": "repeated", "wrong_current_password": "current", "rate_limit_exceeded": ""}
# So the second of two equal forms is refused.
_TWICE: Final = frozenset({"wrong_current_password", "has_password"})
_DONE: Final = {"changed": "own_password.done_changed", "set": "own_password.done_set"}


class PasswordForm(BoundForm, frozen=True, kw_only=True):
    current: Password | None = None
    """None: a first password."""
    new_password: Password = Password("")
    repeated: Password = Password("")


@page.get(PASSWORD, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(Unauthorized,))
async def show_own_password(call: Call[None, Done], postern: Postern) -> bytes:
    """See when you chose your password, and choose another"""
    summary = await postern.identity.account_summaries.of(call.caller.user)
    return show(
        call,
        postern,
        "password.html",
        PASSWORD,
        action=PASSWORD,
        has_password=summary.has_password,
        changed_at=summary.password_changed_at,
        shortest=SHORTEST_PASSWORD,
        longest=LONGEST_PASSWORD,
        done=_DONE.get(call.query.done, ""),
    )


@page.post(PASSWORD, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(NotFound, Overloaded))
async def send_own_password(call: Call[PasswordForm], postern: Postern) -> Page:
    """Choose a password

    All other sessions end. The same form, sent twice, is answered as once.
    """
    form, user = call.body, call.caller.user
    done = back_to(PASSWORD, "set" if form.current is None else "changed")
    try:
        if form.new_password.reveal() != form.repeated.reveal():
            raise BadRequest(words="passwords_differ")  # noqa: TRY301 - told as every other word against a password is
        if form.current is None:
            await postern.identity.account_passwords.set(user, call.caller.session, form.new_password, call.actor)
        else:
            await postern.identity.account_passwords.change(user, call.caller.session, form.current, form.new_password, call.actor)
    except (BadRequest, Unauthorized, RateLimited) as refusal:
        if refusal.words in _TWICE and await postern.identity.account_passwords.was_just_chosen(user, form.new_password):
            return done
        return _refused(call, postern, refusal)
    return done


def _refused(call: AnyCall, postern: Postern, refusal: Refusal) -> Answer[bytes]:
    field = _FIELDS.get(refusal.words, "new_password")
    shown = show(
        call,
        postern,
        "password.html",
        PASSWORD,
        action=PASSWORD,
        has_password=call.body.current is not None,
        changed_at=None,
        shortest=SHORTEST_PASSWORD,
        longest=LONGEST_PASSWORD,
        errors={field: refusal},
    )
    return Answer(shown, 429 if isinstance(refusal, RateLimited) else 400)

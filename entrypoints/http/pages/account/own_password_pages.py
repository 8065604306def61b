"""`/ui/password`: choosing a first password, or a new one."""

from typing import Any, Final

from core.domain.errors import BadRequest, NotFound, Overloaded, RateLimited, Refusal, Unauthorized
from core.domain.identifiers import UserId
from core.domain.identity.accounts import LONGEST_PASSWORD, AccountSummary
from core.domain.identity.callers import Caller
from core.domain.identity.proofs import StepUp
from core.domain.secrets import Password
from core.usecases.identity.account_passwords import FittingPassword
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BROWSER, BoundForm, proof_page
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.limits import PAGE_LOADS
from entrypoints.http.pages.account import PASSWORD, AnyCall, Done, Page, back_to, show
from entrypoints.http.pages.declaring import WITH_FORM, page

# The field of a refusal, for refusals that are not about the new password.
_FIELDS: Final = {"wrong_current_password": "current", "rate_limit_exceeded": ""}
# When a form is sent twice, the second request gets one of these refusals.
_TWICE: Final = frozenset({"wrong_current_password", "has_password"})
_PROVE_FIRST: Final = redirect(proof_page(PASSWORD, StepUp.ACCOUNT))
_DONE: Final = {"changed": "own_password.done_changed", "set": "own_password.done_set"}


class OwnPasswordForm(BoundForm, frozen=True, kw_only=True):
    current: Password | None = None
    """None when the account gets its first password."""
    new_password: Password = Password("")
    repeated: Password = Password("")


@page.get(PASSWORD, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(Unauthorized,))
async def show_own_password(call: Call[None, Done], postern: Postern) -> Page:
    """See when you chose your password, and choose a new one

    A first password needs a fresh proof, because it becomes a way to sign in.
    """
    summary = await postern.identity.account_summaries.of(call.caller.user)
    prove = postern.identity.reauthentication
    if not summary.has_password and not prove.has_proved(call.caller, summary.second_factor_since, StepUp.ACCOUNT):
        return _PROVE_FIRST
    return Answer(await _form(call, postern, summary, call.caller.user, done=_DONE.get(call.query.done, "")), 200)


@page.post(PASSWORD, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(Unauthorized, NotFound, Overloaded))
async def send_own_password(call: Call[OwnPasswordForm], postern: Postern) -> Page:
    """Choose a password

    All other sessions end. The same form, sent twice, gets the same answer. A first password needs a fresh proof.
    """
    form, user = call.body, call.caller.user
    done = back_to(PASSWORD, "set" if form.current is None else "changed")
    if form.current is None and await postern.identity.reauthentication.missing(call.caller, StepUp.ACCOUNT) is not None:
        return _PROVE_FIRST
    passwords = postern.identity.account_passwords
    try:
        errors: dict[str, Refusal] = {}
        new = await _fitting_at_sight(form, postern, call.caller, errors)
        if errors and form.current is not None and not await passwords.is_current(user, form.current, call.actor):
            errors = {"current": Unauthorized(words="wrong_current_password"), **errors}
        if errors or new is None:
            return Answer(await _form(call, postern, await postern.identity.account_summaries.of(user), user, errors=errors), 400)
        if form.current is None:
            await passwords.set(user, call.caller.session, new, call.actor)
        else:
            await passwords.change(user, call.caller.session, form.current, new, call.actor)
    except (BadRequest, Unauthorized, RateLimited) as refusal:
        if refusal.words in _TWICE and await passwords.was_just_chosen(user, form.new_password):
            return done
        # Another tab may have set a password in the meantime, so the form follows the present state of the account.
        summary = await postern.identity.account_summaries.of(user)
        shown = await _form(call, postern, summary, user, errors={_FIELDS.get(refusal.words, "new_password"): refusal})
        return Answer(shown, 429 if isinstance(refusal, RateLimited) else 400)
    return done


async def _fitting_at_sight(form: OwnPasswordForm, postern: Postern, caller: Caller, errors: dict[str, Refusal]) -> FittingPassword | None:
    """The new password, if the rules let it pass. Adds what is wrong, by the field."""
    passwords, fitting = postern.identity.account_passwords, None
    try:
        fitting = await passwords.rules.fitting(form.new_password, caller.email, await passwords.standing(caller.user))
    except BadRequest as refusal:
        errors["new_password"] = refusal
    if form.new_password.reveal() != form.repeated.reveal():
        errors["repeated"] = BadRequest(words="passwords_differ")
    return fitting


async def _form(call: AnyCall, postern: Postern, summary: AccountSummary, user: UserId, **more: Any) -> bytes:
    passwords = postern.identity.account_passwords
    return show(
        call,
        postern,
        "password.html",
        PASSWORD,
        action=PASSWORD,
        has_password=summary.has_password,
        changed_at=summary.password_changed_at,
        shortest=passwords.rules.shortest_for(await passwords.standing(user)),
        longest=LONGEST_PASSWORD,
        **more,
    )

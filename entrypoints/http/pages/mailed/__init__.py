"""`/ui`: the built-in pages behind the links of mails about passwords, for installations without another frontend. The pages work
without scripts.

`/ui/lock-account`: the page behind "Was this not you?" in our mails. Opening the link changes nothing, since programs open links,
too. The form locks the account that the mail went to, without a sign-in: whoever broke in may have changed the password.

`/ui/lift-rules`: the page behind the mail to a platform owner whom a rule of the installation refuses. Opening the link changes nothing,
since programs open links, too. The form puts the rules that refuse back in shadow, without a sign-in, which they would refuse.
"""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Final
from uuid import UUID

import msgspec

from core.domain.errors import BadRequest, Forbidden, Overloaded, RateLimited, Refusal
from core.domain.identifiers import OrganizationId, UserKeyId
from core.domain.identity.account_locks import MOST_RECENT, AddressGivenUp, FactorWouldEnd, LockedAccount
from core.domain.identity.account_mails import LinkRefused
from core.domain.identity.accounts import LONGEST_PASSWORD, PasswordChosen
from core.domain.identity.realms import ProviderRequired
from core.domain.identity.upstream.claims import AddedWay
from core.domain.secrets import Password, Token
from core.domain.services.user_keys import MOST_KEPT, HeldUserKey
from core.domain.tenancy.members import MOST_ASKED, ListedMembership
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.accepts import Form
from entrypoints.http.machinery.answers import Answer, NoBody, redirect
from entrypoints.http.machinery.browsers import SIGN_IN
from entrypoints.http.machinery.callers import ANYONE
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.errors import Refused
from entrypoints.http.machinery.fields import Line
from entrypoints.http.machinery.limits import AUTH, PAGE_LOADS, PAGE_SIGN_INS, UNLIMITED
from entrypoints.http.pages.kit import shipped_pages
from entrypoints.http.pages.kit.declaring import TO_SIGN_IN, WITH_FORM, Advised, WayOn, in_words, page
from entrypoints.http.pages.kit.flows import FORGOTTEN, AnyCall

_CHOSEN: Final = "/ui/password-chosen"
RESET: Final = "/ui/reset-password"
_SET: Final = "/ui/set-password"
_ACCEPTS: Final = Form(most_fields=2 * (MOST_ASKED + MOST_KEPT + MOST_RECENT))
_REFUSES: Final = (BadRequest, ProviderRequired, Overloaded)
_TITLES: Final = {RESET: "choose_password.title_reset", _SET: "choose_password.title_first"}


class PasswordLink(msgspec.Struct, frozen=True):
    token: Token = Token("")


class ChosenLink(msgspec.Struct, frozen=True):
    first: Line = ""
    """Not empty for the first password of an account."""
    ended: Line = ""
    """Not empty when the link was the first proof of an address that a directory had vouched for."""


class ChosenPassword(msgspec.Struct, frozen=True):
    token: Token
    new_password: Password
    repeated: Password
    confirmed: Annotated[Sequence[UUID], msgspec.Meta(max_length=MOST_ASKED)] = ()
    """The organizations whose memberships the person confirms."""
    keep_keys: Annotated[Sequence[UUID], msgspec.Meta(max_length=MOST_KEPT)] = ()
    """The keys for applications that stay."""
    keep_ways: Annotated[Sequence[Line], msgspec.Meta(max_length=MOST_RECENT)] = ()
    """The passkeys and connected accounts of a locked account that are the person's."""


def _advice(refused: Refused) -> str | Advised:
    if isinstance(refused, ProviderRequired):
        return Advised("refusals.provider_required_advice", TO_SIGN_IN)
    return Advised("choose_password.new_link", WayOn(FORGOTTEN, "check_mail.retry")) if isinstance(refused, LinkRefused) else ""


@page.get(RESET, caller=ANYONE, limit=PAGE_LOADS, policy=WITH_FORM, advice=_advice, refuses=(BadRequest, ProviderRequired))
async def show_password_reset(call: Call[None, PasswordLink], postern: Postern) -> bytes:
    """Choose a new password by a mailed link

    This looks up the link and leaves it usable, however often a program opens it.
    """
    return await _show(RESET, call, postern)


@page.post(
    RESET,
    caller=ANYONE,
    limit=AUTH,
    policy=WITH_FORM,
    advice=_advice,
    refuses=(BadRequest, ProviderRequired, Overloaded),
    accepts=_ACCEPTS,
)
async def send_password_reset(call: Call[ChosenPassword], postern: Postern) -> Answer[bytes] | Answer[NoBody]:
    """Change the password"""
    return await _choose(RESET, call, postern)


@page.get(_SET, caller=ANYONE, limit=PAGE_LOADS, policy=WITH_FORM, advice=_advice, refuses=(BadRequest, ProviderRequired))
async def show_first_password(call: Call[None, PasswordLink], postern: Postern) -> bytes:
    """Choose a first password by a mailed link"""
    return await _show(_SET, call, postern)


@page.post(
    _SET,
    caller=ANYONE,
    limit=AUTH,
    policy=WITH_FORM,
    advice=_advice,
    refuses=(BadRequest, ProviderRequired, Overloaded),
    accepts=_ACCEPTS,
)
async def send_first_password(call: Call[ChosenPassword], postern: Postern) -> Answer[bytes] | Answer[NoBody]:
    """Set the password"""
    return await _choose(_SET, call, postern)


@page.get(_CHOSEN, caller=ANYONE, limit=UNLIMITED)
def password_chosen(call: Call[None, ChosenLink], _postern: Postern) -> bytes:
    """Say that the password is changed, or set for the first time"""
    name = "password_set" if call.query.first else "password_chosen"
    if call.query.ended:
        name = "first_proof"
    return shipped_pages().outcome(name, call.language, good=True, onward=SIGN_IN)


async def _show(path: str, call: Call[None, PasswordLink], postern: Postern) -> bytes:
    keys = await postern.identity.account_passwords.keys_at_reset(call.query.token)
    recent = await postern.identity.account_passwords.recent_at_reset(call.query.token)
    listed = await postern.tenancy.members.listed_by_link(call.query.token)
    # The memberships by which the account was created are ticked at first.
    made = {one.organization for one in listed if one.made_the_account}
    return await _form(path, call.query.token, call, postern, listed=listed, confirmed=made, keys=keys, recent=recent)


async def _choose(path: str, call: Call[ChosenPassword], postern: Postern) -> Answer[bytes] | Answer[NoBody]:
    form, passwords = call.body, postern.identity.account_passwords
    confirmed = {OrganizationId(one) for one in form.confirmed}
    kept = {UserKeyId(one) for one in form.keep_keys}
    refused: dict[str, Refusal] = {}
    chosen = PasswordChosen(path == RESET, was_vouched=False)
    try:
        if form.new_password.reveal() != form.repeated.reveal():
            refused["repeated"] = BadRequest(words="passwords_differ")
            # The person hears of all errors at once.
            link = await passwords.look_at_link(form.token)
            await passwords.rules.require(form.new_password, link.email, await passwords.standing(link.user))
        else:
            chosen = await postern.tenancy.members.choose_password(
                form.token, form.new_password, confirmed, call.actor, keep_keys=kept, keep_ways=form.keep_ways
            )
    except LinkRefused:
        if not await passwords.was_just_reset(form.token, form.new_password):
            raise
    except FactorWouldEnd as refusal:
        refused = {"": refusal}
    except BadRequest as refusal:
        refused = {"new_password": refusal, **refused}
    if refused:
        listed = await postern.tenancy.members.listed_by_link(form.token)
        keys = await passwords.keys_at_reset(form.token)
        recent = await passwords.recent_at_reset(form.token)
        again = await _form(
            path,
            form.token,
            call,
            postern,
            listed=listed,
            confirmed=confirmed,
            keys=keys,
            kept=kept,
            recent=recent,
            kept_ways=form.keep_ways,
            refused=refused,
        )
        return Answer(again, 400)
    if chosen.was_vouched:
        return redirect(f"{_CHOSEN}?ended=yes")
    return redirect(_CHOSEN if chosen.had_password else f"{_CHOSEN}?first=yes")


async def _form(
    path: str,
    token: Token,
    call: AnyCall,
    postern: Postern,
    *,
    listed: Sequence[ListedMembership],
    confirmed: Collection[OrganizationId],
    keys: Sequence[HeldUserKey],
    kept: Collection[UserKeyId] = (),
    recent: Sequence[AddedWay],
    kept_ways: Collection[str] = (),
    refused: Mapping[str, Refusal] = MappingProxyType({}),
) -> bytes:
    text, passwords = shipped_pages().text(call.language), postern.identity.account_passwords
    standing = await passwords.standing((await passwords.look_at_link(token)).user)
    return shipped_pages().page(
        "mailed/choose_password.html",
        call.language,
        title=text(_TITLES[path]),
        action=path,
        token=token.reveal(),
        errors={field: in_words(refusal, text) for field, refusal in refused.items()},
        shortest=passwords.rules.shortest_for(standing),
        longest=LONGEST_PASSWORD,
        listed=listed,
        confirmed=confirmed,
        keys=keys,
        kept=kept,
        recent=recent,
        kept_ways=kept_ways,
        now=postern.foundation.clock.now(),
    )


LOCK_BY_MAIL: Final = "/ui/lock-account"


class LockByMail(msgspec.Struct, frozen=True):
    token: Token = Token("")


def _advice_lock_page(refused: Refused) -> str | Advised:
    if isinstance(refused, AddressGivenUp):
        return "lock.moved"
    return Advised("lock.refused", WayOn(FORGOTTEN, "lock.choose")) if isinstance(refused, LinkRefused) else ""


@page.get(LOCK_BY_MAIL, caller=ANYONE, limit=PAGE_LOADS, policy=WITH_FORM, advice=_advice_lock_page, refuses=(BadRequest,))
async def show_lock(call: Call[None, LockByMail], postern: Postern) -> bytes:
    """Ask whether to lock the account that a mail went to

    This looks up the link and leaves it usable, however often a program opens it.
    """
    email, is_locked = await postern.identity.account_locks.look_at_link(call.query.token)
    if is_locked:
        return shipped_pages().outcome("locked", call.language, good=True)
    return shipped_pages().page(
        "mailed/lock_account.html", call.language, action=LOCK_BY_MAIL, token=call.query.token.reveal(), email=email.address
    )


@page.post(
    LOCK_BY_MAIL,
    caller=ANYONE,
    limit=UNLIMITED,
    attempt=PAGE_SIGN_INS,
    policy=WITH_FORM,
    advice=_advice_lock_page,
    refuses=(BadRequest, RateLimited),
)
async def send_lock(call: Call[LockByMail], postern: Postern) -> bytes:
    """Lock the account that a mail went to

    The link works once. The same form, sent twice, says that the account is locked.
    """
    return locked_page(call, postern, await postern.identity.account_locks.lock_by_mail(call.body.token, call.actor))


def locked_page(call: AnyCall, postern: Postern, done: LockedAccount) -> bytes:
    """What ended. A repeated request finds the account locked, and only says so."""
    if not done.changed:
        return shipped_pages().outcome("locked", call.language, good=True)
    text = shipped_pages().text(call.language)
    counted = (("sessions", done.sessions), ("devices", done.devices), ("consents", done.consents))
    ended = [
        *([text("locked.password")] if done.had_password else []),
        *(text(f"locked.{name}", count=count) for name, count in counted if count),
        *([text("locked.keys", keys=text.listed(done.keys))] if done.keys else []),
    ]
    return shipped_pages().page("mailed/locked.html", call.language, ended=ended, recent=done.recent, now=postern.foundation.clock.now())


LIFT_RULES: Final = "/ui/lift-rules"


class LiftRules(msgspec.Struct, frozen=True):
    token: Token = Token("")


def _advice_lift_page(refused: Refused) -> str | Advised:
    return Advised("lift_rules.refused", WayOn(SIGN_IN, "lift_rules.sign_in")) if isinstance(refused, LinkRefused) else ""


@page.get(LIFT_RULES, caller=ANYONE, limit=PAGE_LOADS, policy=WITH_FORM, advice=_advice_lift_page, refuses=(BadRequest, Forbidden))
async def show_lift_rules(call: Call[None, LiftRules], postern: Postern) -> bytes:
    """See the rules for risk of the installation that refuse sign-ins, by a mailed link"""
    lifts = await postern.identity.installation_way_back.look(call.query.token)
    return shipped_pages().page(
        "mailed/lift_rules.html",
        call.language,
        action=LIFT_RULES,
        token=call.query.token.reveal(),
        names=[one.name for one in lifts],
    )


@page.post(
    LIFT_RULES,
    caller=ANYONE,
    limit=UNLIMITED,
    attempt=PAGE_SIGN_INS,
    policy=WITH_FORM,
    advice=_advice_lift_page,
    refuses=(BadRequest, Forbidden, RateLimited),
)
async def send_lift_rules(call: Call[LiftRules], postern: Postern) -> bytes:
    """Put the rules for risk of the installation that refuse back in shadow

    The same form, sent twice, finds no such rule from before the mail, and says that the link was used.
    """
    await postern.identity.installation_way_back.lift(call.body.token, call.actor)
    return shipped_pages().outcome("lifted_rules", call.language, good=True)

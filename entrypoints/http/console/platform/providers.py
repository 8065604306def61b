"""Further providers of the installation, in the order of their buttons: their record, test and logos."""

from collections.abc import Mapping
from typing import Any, Final

from core.domain.errors import Refusal
from core.domain.identity.profiles import LARGEST_PICTURE, MOST_PIXELS, PICTURE_TYPES
from core.domain.identity.upstream.further import FurtherState, FurtherTest
from core.domain.identity.upstream.providers import ClientSecretKind, FurtherKind
from entrypoints.bootstrap import Postern
from entrypoints.http.console.kit.cells import Cell, Tone, code, copied, listed, number, plain, state, when, words
from entrypoints.http.console.kit.declaring import console
from entrypoints.http.console.kit.forms import Asked, InputKind, shape
from entrypoints.http.console.kit.resource_pages import pages
from entrypoints.http.console.kit.resources import Act, Ending, Resource, Section
from entrypoints.http.console.kit.sent_forms import explained
from entrypoints.http.console.kit.visit import NO_ERRORS, ButtonLink, DoneLink, Head, Page, PageVisit, button
from entrypoints.http.console.platform.adding import NEW
from entrypoints.http.console.platform.adding import PAGES as ADDING
from entrypoints.http.console.platform.platform_tabs import PROVIDERS_ENTRY, PROVIDERS_TAB, position
from entrypoints.http.machinery.accepts import FormWithFile
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.page_addresses import PROVIDERS
from entrypoints.http.routes.platform.further_providers import (
    FurtherProviderPath,
    activate_further_provider,
    change_further_provider,
    create_further_provider,
    delete_further_provider,
    get_further_provider,
    list_further_providers,
    remove_further_logo,
    upload_further_logo,
)

_ONE: Final = f"{PROVIDERS}/{{key}}"
LOGO: Final = f"{_ONE}/logo"
_NO_LOGO: Final = f"{LOGO}/remove"
_TEST: Final = "/ui/test-provider/{key}"
_UPLOADED: Final = button("console.provider_logo.upload")
_REMOVED: Final = button("console.provider_logo.remove")


class ProviderLogoForm(BoundForm, frozen=True, kw_only=True):
    logo: bytes = b""


@console.get(LOGO, of=upload_further_logo, also=(get_further_provider,))
async def show_provider_logo(call: Call[None, DoneLink, FurtherProviderPath], postern: Postern) -> Page:
    """See the logo of a further provider"""
    return Answer(await _page(PageVisit(call, postern), done=call.query.done), 200)


@console.post(LOGO, of=upload_further_logo, also=(get_further_provider,), accepts=FormWithFile(2 * LARGEST_PICTURE))
async def send_provider_logo(call: Call[ProviderLogoForm, None, FurtherProviderPath], postern: Postern) -> Page:
    """Upload the logo of a custom provider"""
    visit = PageVisit(call, postern)
    try:
        # The bytes say what the picture is.
        await postern.platform.further_providers.put_logo(call.path.key, call.body.logo, call.actor)
    except Refusal as problem:
        said, status = explained(visit, problem)
        return Answer(await _page(visit, errors={"logo": next(iter(said.values()))}), status)
    return redirect(f"{visit.here(LOGO)}?done={_UPLOADED}")


@console.post(_NO_LOGO, of=remove_further_logo)
async def send_provider_logo_removal(call: Call[BoundForm, None, FurtherProviderPath], postern: Postern) -> Page:
    """Remove the logo of a custom provider"""
    visit = PageVisit(call, postern)
    await visit.ask(remove_further_logo)
    return redirect(f"{visit.here(LOGO)}?done={_REMOVED}")


async def _page(visit: PageVisit, *, errors: Mapping[str, str] = NO_ERRORS, done: str = "") -> bytes:
    provider = await visit.ask(get_further_provider)
    return visit.show(
        "platform/provider_logo.html",
        position(PROVIDERS_ENTRY, PROVIDERS_TAB),
        Head(
            title=visit.text("console.provider_logo.title"),
            crumbs=((visit.text("console.platform_providers.title"), PROVIDERS), (provider.name, visit.here(_ONE))),
            done=done,
            errors=errors,
        ),
        logo=provider.logo,
        name=provider.name,
        upload=visit.here(LOGO),
        remove=visit.here(_NO_LOGO) if provider.logo else "",
        picture_types=", ".join(PICTURE_TYPES),
        kib=LARGEST_PICTURE >> 10,
        pixels=MOST_PIXELS,
    )


_STATES: Final = {
    "draft": ("console.state.draft", Tone.WARN),
    "active": ("console.state.active", Tone.GOOD),
    "off": ("console.state.off", Tone.WARN),
}
_TESTS: Final = {
    FurtherTest.NONE: ("console.platform_providers.untested", Tone.WARN),
    FurtherTest.PASSED: ("console.platform_providers.passed", Tone.GOOD),
    FurtherTest.BEFORE_CHANGE: ("console.platform_providers.before_change", Tone.WARN),
}


def _state(one: Any) -> str:
    return "off" if one.state is FurtherState.ACTIVE and not one.enabled else one.state.value


async def _known(visit: PageVisit, one: Any) -> Mapping[str, Any]:
    return {"provider": one, "callback": Cell("copy", one.callback_url), "test": visit.here(_TEST)}


def _openid(name: str, **more: Any) -> Asked:
    return Asked(name, under=("kind", FurtherKind.OPENID), **more)


def _oauth(name: str, **more: Any) -> Asked:
    return Asked(name, under=("kind", FurtherKind.OAUTH), **more)


def _apple(name: str) -> Asked:
    return Asked(name, under=("secret_kind", ClientSecretKind.SIGNING_KEY))


# What the owner says yes to.
_SETTINGS: Final = (
    words("kind", FurtherKind),
    code("client_id"),
    *(code(name) for name in ("issuer", "authorization_url", "token_url", "profile_url")),
    listed("scopes"),
    code("subject", "console.field.subject_path"),
    when("secret_set_at"),
    when("tested_at"),
)

FURTHER: Final = Resource(
    name="platform_providers",
    position=position(PROVIDERS_ENTRY, PROVIDERS_TAB),
    at=PROVIDERS,
    listed=list_further_providers,
    columns=(
        plain("name"),
        code("key", "console.field.short_name"),
        words("kind", FurtherKind),
        number("position"),
        state(_state, _STATES),
    ),
    parameter="key",
    key=lambda one: one.key,
    state=(_state, _STATES.__getitem__),
    facts=(
        state("test", _TESTS, "console.platform_providers.test"),
        when("tested_at"),
        number("people", "console.platform_providers.people"),
        code("key", "console.field.short_name"),
        words("kind", FurtherKind),
        copied("callback_url"),
        listed("scopes"),
        when("secret_set_at"),
        when("created_at"),
        when("updated_at"),
    ),
    main=lambda visit: ButtonLink(visit.text("console.platform_providers.new"), NEW) if visit.may(create_further_provider) else None,
    sections=(
        Section(
            "change",
            shape(
                change_further_provider,
                "name",
                Asked("client_id", kind=InputKind.TEXT),
                Asked("client_secret", kind=InputKind.LONG, hint="console.siem.secret_hint"),
                "enabled",
                "position",
                Asked("organizations", hint="console.platform_providers.organizations_hint"),
                "scopes",
            ),
            undone=False,
            says=True,
        ),
        Section(
            "protocol",
            shape(
                change_further_provider,
                Asked("issuer", hint="console.platform_providers.issuer_hint"),
                _openid("posts_answer"),
                _openid("repeats_nonce"),
                _oauth("authorization_url"),
                _oauth("token_url"),
                _oauth("profile_url"),
                _oauth("subject", label="console.field.subject_path", hint="console.platform_providers.path_hint"),
                _oauth("email", label="console.field.email_path"),
                _oauth("verified"),
                _oauth("full_name"),
                _apple("team_id"),
                _apple("key_id"),
            ),
            undone=False,
            says=True,
        ),
    ),
    acts=(
        Act(
            "activate",
            activate_further_provider,
            asks=True,
            shows=lambda one: one.state is FurtherState.DRAFT and one.test is FurtherTest.PASSED,
            facts=_SETTINGS,
            seen=lambda one: str(one.digest),
        ),
    ),
    below=(
        ("console.provider_logo.title", LOGO, list_further_providers),
        ("console.platform_providers.test", _TEST, list_further_providers),
    ),
    ending=Ending(delete_further_provider, typed=lambda one: str(one.key)),
    template="platform/provider.html",
    more=_known,
)


PAGES: Final = (show_provider_logo, send_provider_logo, send_provider_logo_removal, *ADDING, *pages(FURTHER))

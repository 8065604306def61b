"""The page of a widget: of its own, with nothing on it but the widget, its button and the person's sealed form. The script of somebody else
runs here and nowhere else, so the page shows nothing of the person, has no field to fill in, and can reach no other page of ours.
"""

from functools import lru_cache
from typing import Final

from core.domain.branding import Branding
from core.domain.identity.guards.puzzles import KeptForm, WidgetPreset
from core.domain.languages import Language
from entrypoints.http.machinery.answers import Answer, Headers
from entrypoints.http.machinery.headers import SELF, PagePolicy
from entrypoints.http.pages import shipped_pages
from entrypoints.http.pages.flows import NO_ERRORS, AnyCall
from ports.identity.sign_in import WidgetMaker

# Passkeys belong to our host, so a script on a page of ours could ask for one.
_NO_PASSKEYS: Final[Headers] = ((b"permissions-policy", b"publickey-credentials-create=(), publickey-credentials-get=()"),)
_REFUSED: Final = {"": "widget.refused"}
_LATER: Final = {"": "widget.busy"}


@lru_cache(maxsize=8)
def policy_of(preset: WidgetPreset) -> PagePolicy:
    """Nothing but this widget. The page may stand in a window that an application has opened, as the pages around it."""
    return PagePolicy(
        scripts=preset.scripts,
        styles=(SELF, *preset.styles),
        connections=preset.connections,
        frames=preset.frames,
        form_action=(SELF,),
        opener="unsafe-none",
        confined=True,
    )


def widget_page(
    call: AnyCall, maker: WidgetMaker, kept: KeptForm, sealed: str, *, action: str, flow: str, form_token: str, again: str, brand: Branding
) -> bytes:
    """`again`: why the last answer did not count; empty if there was none."""
    text = shipped_pages().text(call.language)
    told = NO_ERRORS if not again else _LATER if again == "busy" else _REFUSED
    return shipped_pages().page(
        "puzzle/widget.html",
        call.language,
        brand=brand,
        action=action,
        flow=flow,
        form_token=form_token,
        hidden={"kept": sealed},
        maker=maker.preset.maker,
        maker_script=_script(maker.preset, call.language),
        element=maker.preset.element,
        attributes=_attributes(maker, kept, call.language),
        errors={name: text(key) for name, key in told.items()},
    )


def confined(preset: WidgetPreset, body: bytes, status: int, headers: Headers = ()) -> Answer[bytes]:
    return Answer(body, status, (*_NO_PASSKEYS, *headers), policy_of(preset))


def _script(preset: WidgetPreset, language: Language) -> str:
    if not preset.language_parameter:
        return preset.script
    return f"{preset.script}{'&' if '?' in preset.script else '?'}{preset.language_parameter}={language}"


def _attributes(maker: WidgetMaker, kept: KeptForm, language: Language) -> dict[str, str]:
    preset = maker.preset
    named = {preset.action_attribute: kept.purpose.value, preset.bound_attribute: kept.bound, preset.language_attribute: language.value}
    return {"sitekey": maker.site_key, **dict(preset.attributes), **{name: value for name, value in named.items() if name}}

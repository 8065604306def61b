"""`/ui/organizations/~new`: the page on which a person founds an organization."""

from collections.abc import Mapping
from typing import Final

from core.domain.errors import BadRequest, Conflict, Refusal
from core.domain.tenancy.organizations import LONGEST_NAME, LONGEST_SLUG
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.answers import Answer, redirect
from entrypoints.http.machinery.browsers import BROWSER, BoundForm
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.errors import status_of
from entrypoints.http.machinery.limits import PAGE_LOADS
from entrypoints.http.pages.account import NO_ERRORS, ORGANIZATIONS, AnyCall, Page, show
from entrypoints.http.pages.declaring import WITH_FORM, page

NEW: Final = f"{ORGANIZATIONS}/~new"


class FoundingForm(BoundForm, frozen=True, kw_only=True):
    name: str = ""
    slug: str = ""


@page.get(NEW, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM)
def ask_for_organization(call: Call, postern: Postern) -> bytes:
    """See the form that founds an organization"""
    return _form(call, postern, "", "")


@page.post(NEW, caller=BROWSER, limit=PAGE_LOADS, policy=WITH_FORM, refuses=(BadRequest, Conflict))
async def found_organization(call: Call[FoundingForm], postern: Postern) -> Page:
    """Found an organization

    You become its owner.
    """
    form = call.body
    slug = form.slug.strip() or suggested(form.name)
    try:
        founded = await postern.tenancy.organizations.found_in_browser(call.caller, slug, form.name, call.actor)
    except (BadRequest, Conflict) as refusal:
        field = refusal.message.partition(":")[0]
        errors = {field if field in {"name", "slug"} else "": refusal}
        return Answer(_form(call, postern, form.name, slug, errors), status_of(refusal))
    return redirect(f"/ui/o/{founded.slug}" if founded.is_active else f"{ORGANIZATIONS}/{founded.slug}")


def suggested(name: str) -> str:
    """A slug for this name. Empty for a name without letters that a slug can have."""
    kept = "".join(one if one.isascii() and one.isalnum() else "-" for one in name.strip().lower())
    return "-".join(filter(None, kept.split("-")))[:LONGEST_SLUG].strip("-")


def _form(call: AnyCall, postern: Postern, name: str, slug: str, errors: Mapping[str, Refusal] = NO_ERRORS) -> bytes:
    return show(
        call,
        postern,
        "organizations/new.html",
        ORGANIZATIONS,
        name=name,
        slug=slug,
        longest_name=LONGEST_NAME,
        longest_slug=LONGEST_SLUG,
        approves=postern.tenancy.organizations.auto_approve or call.caller.is_platform_owner,
        errors=errors,
        action=NEW,
    )

"""`postern access`: explains a user's rights in an organization, and the claims that an application would receive about the user."""

import argparse
import json

import trio

from core.domain.claims import ToldClaim
from core.domain.federation.token_preview import TokenPreview, missing_in, told_in
from core.domain.identity.terms import PendingTerms
from core.domain.tenancy.organizations import Accessor, OrganizationStatus, Related
from core.domain.tenancy.roles import HOLDER, Capability
from entrypoints.cli.opening import opened_postern
from entrypoints.cli.output.printing import plain, print_json
from entrypoints.failures import FAILURE, OK, USAGE, StartFailed
from entrypoints.settings import Settings


class _NoSuchCapability(StartFailed):
    status = USAGE


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    capability = None if arguments.capability is None else _capability(arguments.capability)
    if arguments.service is not None:
        if capability is not None:
            raise _NoSuchCapability("--can asks about the organization: leave out --service")
        preview = trio.run(_preview, arguments, settings)
        if arguments.json:
            print_json(preview)
        else:
            print("\n".join(preview_lines(preview)))
        return OK if preview.verdict.may_sign_in else FAILURE
    seen = trio.run(_explain, arguments, settings)
    if arguments.json:
        print_json({**plain(seen), "gets_in": seen.gets_in, "capabilities": sorted(one.value for one in seen.capabilities)})
    else:
        print("\n".join(lines(seen, capability)))
    return status(seen, capability)


def status(seen: Accessor, capability: Capability | None) -> int:
    """Returns exit status 0 when the person's next request would be let in. With a capability, 0 only when the person also has that
    capability.
    """
    return OK if seen.gets_in and (capability is None or capability in seen.capabilities) else FAILURE


def lines(seen: Accessor, capability: Capability | None = None) -> list[str]:
    said = [f"{seen.email} is {f'{seen.role} in' if seen.role else 'not a member of'} {seen.organization_slug}"]
    if not seen.is_active:
        said.append("The account is deactivated, so it is refused everywhere.")
    if seen.organization_status is not OrganizationStatus.ACTIVE:
        said.append(f"The organization is {seen.organization_status}: its members can see that it exists, but not its contents.")
    if seen.second_factor_due is not None:
        due = f"{'was' if seen.owes_second_factor else 'is'} due at {seen.second_factor_due:%Y-%m-%d %H:%M} UTC"
        said.append(f"The organization requires MFA, and the account has not set it up: it {due}.")
    said += [_asked(one) for one in seen.terms]
    said += [f"relation    {_relation(one, seen)}" for one in seen.related]
    held = seen.capabilities
    shown = held if capability is None else {one: by for one, by in held.items() if one is capability}
    said += [f"capability  {one:<22} {', '.join(_reason(each) for each in by)}" for one, by in shown.items()]
    if capability is not None and capability not in held:
        said.append(f"capability  {capability:<22} not held")
    return said


def preview_lines(preview: TokenPreview) -> list[str]:
    """The claims that the service would get, each with its source, and the missing ones with the reasons."""
    verdict = preview.verdict
    said = [
        f"sign-in       {'yes' if verdict.may_sign_in else 'no'}: {verdict.because}",
        f"consent       {preview.consent}",
        f"scopes        {' '.join(preview.scopes)}",
    ]
    for place, claims in preview.places.items():
        said += [f"{place:<14}{one.name} = {json.dumps(one.value, ensure_ascii=False)} ({_origin(one)})" for one in told_in(claims)]
        said += [f"{place:<14}{one.name} is missing: {one.reason}" for one in missing_in(claims)]
    return said


def _origin(one: ToldClaim) -> str:
    return one.source if one.about is None else f"{one.source} {one.about}"


def _asked(one: PendingTerms) -> str:
    whose = "organization" if one.organization_slug else "installation"
    due = f"{'was' if one.is_over else 'is'} due at {one.due_at:%Y-%m-%d %H:%M} UTC"
    return f"The {whose} requires people to accept its terms, version {one.version}, and the person has not: it {due}."


def _relation(one: Related, seen: Accessor) -> str:
    subject = f"members of team {one.by_team} are" if one.by_team else f"user {seen.email} is"
    if not one.by_role:
        return f"{subject} {one.relation} of organization {seen.organization_slug}"
    if one.relation == HOLDER:
        return f"{subject} {HOLDER} of role {one.by_role}"
    return f"holders of role {one.by_role} have {one.relation} in organization {seen.organization_slug}"


def _reason(one: Related) -> str:
    reason = f"as holder of {one.by_role}" if one.by_role else f"as {one.relation}"
    return f"{reason} by team {one.by_team}" if one.by_team else reason


def _capability(text: str) -> Capability:
    try:
        return Capability(text)
    except ValueError:
        raise _NoSuchCapability(f"Unknown capability {text!r}; the capabilities are {', '.join(Capability)}") from None


async def _preview(arguments: argparse.Namespace, settings: Settings) -> TokenPreview:
    async with opened_postern(settings) as postern:
        email = postern.foundation.email_syntax.parse(arguments.user)
        return await postern.federation.token_previews.explain(email, arguments.organization, arguments.service)


async def _explain(arguments: argparse.Namespace, settings: Settings) -> Accessor:
    async with opened_postern(settings) as postern:
        return await postern.tenancy.access.explain(postern.foundation.email_syntax.parse(arguments.user), arguments.organization)

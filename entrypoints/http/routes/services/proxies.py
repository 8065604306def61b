"""Applications behind a proxy: their hosts, what each path asks for, and what the application is told."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec

from core.domain.errors import BadRequest, Conflict
from core.domain.services.proxies import (
    LONGEST_HEADER,
    LONGEST_RULE,
    MOST_HEADERS,
    MOST_HOSTS,
    MOST_PATH_RULES,
    USUAL_HEADERS,
    KeptProxy,
    ProxySettingsChange,
)
from core.domain.services.proxy_paths import LONGEST_PATH
from core.domain.tenancy.members import Member
from core.domain.tenancy.roles import Capability
from entrypoints.bootstrap import Postern
from entrypoints.http.machinery.callers import able
from entrypoints.http.machinery.calls import Call
from entrypoints.http.machinery.derived import shown, taken
from entrypoints.http.machinery.endpoints import endpoint
from entrypoints.http.machinery.fields import ServicePath, example
from entrypoints.http.machinery.limits import UNLIMITED

_TAGS = ("services",)
_PROXY: Final = "/api/organizations/{org_slug}/services/{service_slug}/proxy"

_Host = Annotated[str, msgspec.Meta(max_length=260)]
_Hosts = Annotated[Sequence[_Host], msgspec.Meta(max_length=MOST_HOSTS), example(["wiki.acme.example"])]
_Rule = Annotated[str, msgspec.Meta(max_length=LONGEST_RULE)]
_Rules = Annotated[Sequence[_Rule], msgspec.Meta(max_length=MOST_PATH_RULES), example(["/public open", "/admin role editor"])]
_Header = Annotated[str, msgspec.Meta(max_length=LONGEST_HEADER)]
_Headers = Annotated[Sequence[_Header], msgspec.Meta(max_length=MOST_HEADERS), example(["Remote-User email"])]
_Idle = Annotated[int, example(60)]


class ProxyBody(msgspec.Struct, frozen=True, kw_only=True):
    """What is set of an application behind a proxy."""

    hosts: _Hosts = ()
    """The application's hosts, at most 20: names without a port. Each lies in a domain that the organization has verified, or a platform
    owner sets it; one host has one application.
    """
    rules: _Rules = ()
    """What a path, and all below it, asks for: `/public open`, `/ signed_in`, `/admin role editor`, `/docs permission read`. The longest
    path counts. What no rule fits asks for a sign-in; what can be read in several ways has to meet every rule. What follows a segment with
    a dot, such as `/admin` in `/index.php/admin`, has to meet the rule that fits it, too, other than that of `/`. Rules do not see a query.
    """
    headers: _Headers = USUAL_HEADERS
    """What the application is told in which header: `id`, `email` (only a verified one), `name`, `username`, `groups` (the person's teams),
    `roles` or `permissions`. Each answer has `Remote-User`, `Remote-Email`, `Remote-Name` and `Remote-Groups`, too.
    """
    idle_minutes: _Idle | None = None
    """The idle timeout in minutes: 5 to 43200. Null: the session ends with the browser's session."""


class ProxyRecord(ProxyBody, frozen=True, kw_only=True):
    """What is set of an application behind a proxy, with the state of its hosts."""

    approved_hosts: _Hosts
    """The hosts that a platform owner has set without a proof."""
    closed_hosts: Annotated[Sequence[_Host], example([])]
    """The hosts that nothing comes through: no one here has a proof of their domain any more, or another organization has one."""


class ProxyPatch(msgspec.Struct, frozen=True, kw_only=True):
    """A change of what is set of an application behind a proxy. Omitted fields keep their values; a list replaces the old one."""

    hosts: _Hosts | msgspec.UnsetType = msgspec.UNSET
    """The application's hosts. A host that goes opens nothing with the next request."""
    rules: _Rules | msgspec.UnsetType = msgspec.UNSET
    """What each path asks for."""
    headers: _Headers | msgspec.UnsetType = msgspec.UNSET
    """What the application is told in which header."""
    idle_minutes: _Idle | msgspec.UnsetType | None = msgspec.UNSET
    """The idle timeout in minutes; null for none."""


class ProxyPreviewQuery(msgspec.Struct, frozen=True):
    """The path of a request."""

    path: Annotated[str, msgspec.Meta(max_length=LONGEST_PATH), example("/admin/x")]
    """The path as a browser would send it, with its escapes."""


class ProxyPreview(msgspec.Struct, frozen=True):
    """What a request for a path is asked."""

    place: Annotated[str, example("/admin/x")] | None
    """The path as the rules see it; null if it can be read in several ways, and has to meet every rule."""
    demands: Annotated[Sequence[str], example(["role editor"])]
    """What it has to meet, all of it: `open`, `signed_in`, `role …`, `permission …`."""


@endpoint.get(_PROXY, caller=able(Capability.SERVICES_VIEW, impersonated=True), keys=True, tags=_TAGS)
async def get_proxy(call: Call[None, None, ServicePath, Member], postern: Postern) -> ProxyRecord:
    """Get the hosts and rules of an application behind a proxy

    Only services of the type `proxy` may have them. A service that never set anything has no hosts.
    """
    return _shown(await postern.services.proxies.get(call.caller, call.path.service_slug))


@endpoint.patch(
    _PROXY,
    caller=able(Capability.SERVICES_MANAGE, impersonated=False),
    keys=True,
    limit=UNLIMITED,
    refuses=(BadRequest, Conflict),
    tags=_TAGS,
)
async def change_proxy(call: Call[ProxyPatch, None, ServicePath, Member], postern: Postern) -> ProxyRecord:
    """Change the hosts and rules of an application behind a proxy

    The change counts with the next request. If you are an owner of the platform, the hosts that you add need no proof.
    """
    person = call.caller.signed_in
    for_platform = call.request.needs_no_proof or (person is not None and person.is_platform_owner)
    change = _change(call.body)
    kept = await postern.services.proxies.change(call.caller, call.path.service_slug, change, call.actor, for_platform=for_platform)
    return _shown(kept)


@endpoint.get(f"{_PROXY}/preview", caller=able(Capability.SERVICES_VIEW, impersonated=True), keys=True, verb="proxy preview", tags=_TAGS)
async def preview_proxy(call: Call[None, ProxyPreviewQuery, ServicePath, Member], postern: Postern) -> ProxyPreview:
    """Check which rules apply to a path behind a proxy

    The answer is what `/proxy/check` decides by. What follows a segment with a dot has to meet its own rule, too: `/index.php/admin` asks
    for what `/admin` asks for. A query decides nothing, so rules cannot guard an application that finds its pages by it (`/?r=admin`).
    """
    found = await postern.services.proxies.preview(call.caller, call.path.service_slug, call.query.path)
    return ProxyPreview(found.place, [str(one) for one in found.demands])


_shown = shown(KeptProxy, ProxyRecord, within=("settings",))
_change = taken(ProxyPatch, ProxySettingsChange)

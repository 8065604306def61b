"""What a world lacks, one fault each. Most of them let nothing be redeemed or exchanged; some are faults in appearance alone.

A fault sees to it that nothing else of the world makes good for it, so that it is met alone.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from hashlib import sha256
from typing import Any, Final, TypeVar
from uuid import UUID

from tests.adapters.postgres.worlds.made import CHALLENGE, OURS, THEIRS, CodeWorld, TokenWorld, World
from tests.adapters.postgres.worlds.rows import URI, Row, as_hex

W = TypeVar("W", bound=World)
Fault = Callable[[W], object]


def then(*steps: Fault[W]) -> Fault[W]:
    def put(world: W) -> None:
        for step in steps:
            step(world)

    return put


# What the world must be like for a fault to be one.


def become(world: World, kind: str) -> None:
    """The service is of this kind, which has no document."""
    if world.service["service_type"] == "metadata":
        world.service["kept_client_id"] = None
    world.service["service_type"] = kind
    if isinstance(world, CodeWorld):
        world.ask_as(world.service)


def untrusted(world: World) -> Row:
    """The service needs the person's consent. Returns it."""
    world.service["trusted"] = False
    if world.consent is None:
        world.consent = world.consents()
        world.allowed = [world.allow(api, given) for api, given in zip(world.apis, world.granted, strict=False)]
    return world.consent


def members_only(world: World) -> None:
    world.service["sign_in_policy"] = "members"
    if isinstance(world, TokenWorld) and world.kind == "account":
        world.belong("organization")
    untrusted(world)


def assigned_only(world: World) -> None:
    """Nobody has given the person a role of the service."""
    world.service["sign_in_policy"] = "assigned"
    its_roles = {one["id"] for one in world.further["service_roles"] if one["service_id"] == world.service["id"]}
    kept = [one for one in world.further["relations"] if one["object_id"] not in its_roles]
    world.further["relations"] = kept
    if isinstance(world, TokenWorld) and world.session["service_id"] is None:
        world.belong("client")


def granted_apis(world: World, count: int = 1) -> Row:
    """The code or session was granted that many APIs. Returns what was granted of the first."""
    if isinstance(world, TokenWorld) and world.kind != "client":
        world.belong("client")
    while len(world.apis) < count:
        world.grant(world.api(world.organization), ["read"])
    if world.consent is not None:
        done = {one["resource_id"] for one in world.allowed}
        world.allowed += [world.allow(api, given) for api, given in zip(world.apis, world.granted, strict=False) if api["id"] not in done]
    carry(world)
    return world.granted[0]


def carry(world: World) -> None:
    """The code or session says what was granted, and the request names one."""
    named = str(world.granted[0]["identifier"]) if world.granted else None
    if isinstance(world, CodeWorld):
        world.code["audiences"] = world.grants()
        world.claims["resource"] = named
    elif isinstance(world, TokenWorld) and world.kind == "client":
        world.session["audiences"] = world.grants()
        world.asks |= {"resource": named, "foreign_scopes": []}


def allowed(world: World) -> Row:
    """The person's answer about the first API."""
    untrusted(world)
    granted_apis(world)
    return world.allowed[0]


def agent(world: World) -> Row:
    """The service acts for people at one API. Returns the person's answer about it."""
    if not world.service["is_agent"]:
        world.service |= {"is_agent": True, "agent_since": None, "trusted": False}
        granted_apis(world)
        del world.apis[1:], world.granted[1:], world.allowed[1:]
        carry(world)
    answer = allowed(world)
    answer["expires_at"] = answer["expires_at"] or world.on(days=1)
    if isinstance(world, TokenWorld):
        world.session |= {"impersonator_id": None, "impersonation_id": None}
    return answer


def began(world: World) -> Row:
    """What was granted, with the time when it began."""
    return world.session if isinstance(world, TokenWorld) else world.code if isinstance(world, CodeWorld) else {}


def of_organization(world: World) -> None:
    if isinstance(world, TokenWorld) and world.kind == "account":
        world.belong("organization")


def of_service(world: World) -> None:
    if isinstance(world, TokenWorld) and world.session["service_id"] is None:
        world.belong("client")


def owes_terms(world: World, organization: str | None, **columns: Any) -> Row:
    """Terms that nobody but the stranger has accepted."""
    of_organization(world)
    if isinstance(world, TokenWorld):
        world.session |= {"impersonator_id": None, "impersonation_id": None}
    world.organization["asks_terms"] = True
    same = [one for one in world.further.get("terms", ()) if one["organization_id"] == organization and one["ended_at"] is None]
    for one in same:
        one["ended_at"] = world.ago(hours=1)
    terms = world.add("terms", **{"organization_id": organization, "due_at": world.ago(days=1), **columns})
    world.accept(terms, world.stranger)
    return terms


def accepted_former(world: World) -> None:
    world.accept(owes_terms(world, world.organization["id"], ended_at=world.ago(days=1)), world.person)
    owes_terms(world, world.organization["id"])


def silent_terms(world: World) -> None:
    """The organization's row says that nobody asks for terms."""
    for one in world.further.get("terms", ()):
        if one["organization_id"] is None:
            one["ended_at"] = world.ago(hours=1)
    owes_terms(world, world.organization["id"])
    world.organization["asks_terms"] = False


def remove_member(world: World) -> None:
    if world.membership is not None:
        gone, world.membership = world.membership, None
        mine = [
            one for one in world.further.get("team_members", ()) if one["user_id"] == gone["user_id"] and one["org_id"] == gone["org_id"]
        ]
        world.further["team_members"] = [one for one in world.further.get("team_members", ()) if one not in mine]


def listed(world: World) -> None:
    """An organization lists the person, whose address another organization has vouched for."""
    members_only(world)
    world.membership = world.membership or world.tie(own=False)
    world.membership["own_since"] = None
    world.vouch(by=world.other)


def listed_by_nobody(world: World) -> None:
    """Like `listed`, for an address that nobody has vouched for: the tie counts."""
    listed(world)
    world.vouch(by=None)


def spared_by_list(world: World) -> None:
    """The service is trusted, but the person is no member by their own act."""
    world.service |= {"trusted": True, "sign_in_policy": "anyone"}
    world.consent, world.allowed = None, []
    world.membership = world.membership or world.tie(own=False)
    world.membership["own_since"] = None


def spared_nobody(world: World) -> None:
    world.service |= {"trusted": True, "sign_in_policy": "anyone"}
    world.consent, world.allowed = None, []
    remove_member(world)


def no_consent(world: World) -> None:
    untrusted(world)
    world.consent, world.allowed = None, []


def of_everybody(world: World) -> None:
    """A role that is given to everybody opens no service."""
    assigned_only(world)
    world.service_role(world.service, given_to_everybody=True)


def of_sibling(world: World) -> None:
    assigned_only(world)
    world.assign(world.service_role(world.sibling), "person", world.person, world.membership)


def of_listed(world: World) -> None:
    """An assigned role opens the service also to a person whose tie does not count."""
    assigned_only(world)
    world.membership = world.membership or world.tie(own=False)
    world.membership["own_since"] = None
    world.vouch(by=world.other)
    world.assign(world.service_role(world.service), "role", world.person, world.membership)
    untrusted(world)


def two_apis(world: World) -> None:
    agent(world)
    world.grant(world.api(world.organization), ["read"])
    granted_apis(world, 2)


def no_api(world: World) -> None:
    agent(world)
    world.apis.clear()
    world.granted.clear()
    world.allowed.clear()
    carry(world)


def unnamed(world: World) -> None:
    """The request names none of several."""
    granted_apis(world, 2)
    if isinstance(world, CodeWorld):
        world.claims["resource"] = None
    elif isinstance(world, TokenWorld):
        world.asks |= {"resource": None}


def named(world: World, resource: str) -> None:
    if isinstance(world, CodeWorld):
        world.claims["resource"] = resource
    elif isinstance(world, TokenWorld):
        world.asks |= {"resource": resource}


def named_another(world: World) -> None:
    granted_apis(world)
    another = world.add("resource_servers", **world.api(world.organization))
    named(world, str(another["identifier"]))


def named_in_vain(world: World) -> None:
    """Nothing was granted."""
    world.service["is_agent"] = False
    world.apis.clear()
    world.granted.clear()
    world.allowed.clear()
    carry(world)
    named(world, "https://api.example/other")


def first_api(world: World) -> Row:
    granted_apis(world)
    return world.apis[0]


def closed_api(world: World) -> None:
    first_api(world).update(verified_at=None, next_check_at=None, approved_at=None, identifier=f"https://api.example/{world.draw.id()}")


def settling_api(world: World) -> None:
    first_api(world).update(
        verified_at=world.ago(days=1), next_check_at=world.on(days=1), approved_at=None, settles_at=world.on(minutes=1),
        identifier=f"https://api.example/{world.draw.id()}",
    )  # fmt: skip
    carry_identifier(world)


def carry_identifier(world: World) -> None:
    for api, given in zip(world.apis, world.granted, strict=False):
        given["identifier"] = api["identifier"]
    carry(world)


def admits_others(world: World) -> None:
    if world.service["service_type"] == "metadata":
        lets_no_host_in(world)
        return
    api = first_api(world)
    api["admits"] = "named"
    world.further["resource_admissions"] = []


def lets_no_host_in(world: World) -> None:
    keeper = world.draw.one(first_api(world), world.organization)
    keeper |= {"metadata_clients": "off", "registered_clients": "off"}


def api_is_gone(world: World) -> None:
    gone = first_api(world)
    named(world, str(gone["identifier"]))
    world.apis.remove(gone)


def other_document(world: World) -> None:
    allowed(world)["document_digest"] = as_hex(sha256(b"other").digest())


def withheld(world: World) -> None:
    """The person has refused all that was granted: nothing is left of the API but its name."""
    answer = allowed(world)
    answer["withheld"] = ["read", "write", "pay"]


def ended_before_agent(world: World) -> None:
    """The service was an agent meanwhile: what was allowed before counts no more."""
    allowed(world)["granted_at"] = world.ago(hours=1)
    world.service |= {"is_agent": False, "agent_since": world.ago(minutes=30)}


OF_PLACE: Final[Mapping[str, Fault[World]]] = {
    "nothing": lambda _: None,
    "the organization is suspended": then(of_organization, lambda world: world.organization.update(status="suspended")),
    "the organization is pending": then(of_organization, lambda world: world.organization.update(status="pending")),
    "the organization is deleted": then(of_organization, lambda world: world.organization.update(deleted_at=world.ago(minutes=1))),
    "the service is deleted": then(of_service, lambda world: world.service.update(deleted_at=world.ago(minutes=1))),
    "the person is deactivated": lambda world: world.person.update(deactivated_at=world.ago(minutes=1)),
    "no member": then(members_only, remove_member),
    "a listed member of another's voucher": listed,
    "a listed member of nobody's voucher": listed_by_nobody,
    "no role": assigned_only,
    "a role of everybody": of_everybody,
    "a role of another service": of_sibling,
    "a role of a tie that does not count": of_listed,
    "terms of the organization": lambda world: owes_terms(world, world.organization["id"]),
    "terms that are due now": lambda world: owes_terms(world, world.organization["id"], due_at=world.now),
    "terms that are due soon": lambda world: owes_terms(world, world.organization["id"], due_at=world.on(minutes=1)),
    "terms that have ended": lambda world: owes_terms(world, world.organization["id"], ended_at=world.ago(minutes=1)),
    "terms of the installation": lambda world: owes_terms(world, None),
    "terms of a former version": accepted_former,
    "terms of another organization": lambda world: owes_terms(world, world.other["id"]),
    "terms that the row does not ask for": silent_terms,
    "agents are forbidden": then(agent, lambda world: world.organization.update(agents="forbidden")),
    "an agent since": then(agent, lambda world: world.service.update(agent_since=world.ago(seconds=10))),
    "an agent since then": then(agent, lambda world: world.service.update(agent_since=began(world)["created_at"])),
    "agents since": then(agent, lambda world: world.organization.update(agents_since=world.ago(seconds=10))),
    "an agent whose consent ends now": lambda world: agent(world).update(expires_at=world.now),
    "an agent whose consent ends soon": lambda world: agent(world).update(expires_at=world.on(milliseconds=100)),
    "an agent without the scopes": lambda world: agent(world).update(scopes=[]),
    "an agent whose consent is old": then(
        lambda world: agent(world).update(granted_at=world.ago(hours=2)),
        lambda world: world.service.update(agent_since=world.ago(hours=1, minutes=55)),
    ),
    "an agent with two APIs": two_apis,
    "an agent without API": no_api,
    "no agent any more": ended_before_agent,
    "none of several is named": unnamed,
    "another API is named": named_another,
    "an API is named in vain": named_in_vain,
    "the API is not proved": closed_api,
    "the API settles": settling_api,
    "the API admits others": admits_others,
    "the API is gone": api_is_gone,
    "the API withholds": withheld,
}


def without_audience(world: CodeWorld, **columns: Any) -> None:
    allowed(world).update(**columns)


def bound(world: CodeWorld, key: str | None) -> None:
    world.code["key_thumbprint"] = OURS
    world.claims["key"] = key


def unbound(world: CodeWorld) -> None:
    world.service["dpop_bound_access_tokens"] = True
    world.code["key_thumbprint"] = None
    world.claims["key"] = None


def redeemed_before(world: CodeWorld) -> None:
    world.code |= {"redeemed_at": world.ago(seconds=5), "redeemed_with": as_hex(b"before"), "session_id": world.draw.id()}


def impersonated(world: CodeWorld) -> None:
    world.parent |= {"impersonator_id": world.owner["id"], "impersonation_id": world.draw.id()}


def below(world: CodeWorld) -> None:
    above = world.add("sessions", user_id=world.person["id"])
    # What a session is opened from is filled before it.
    world.further["sessions"].remove(above)
    world.above = [above]
    world.parent |= {"parent_id": above["id"], "depth": 1}


OF_CODE: Final[Mapping[str, Fault[CodeWorld]]] = {
    **OF_PLACE,
    "no consent": no_consent,
    "a consent that lacks a scope": lambda world: untrusted(world).update(scopes=world.scopes[1:]),
    "a consent without scopes": lambda world: untrusted(world).update(scopes=None),
    "a consent to the very scopes": lambda world: untrusted(world).update(scopes=[*world.scopes]),
    "trust in a listed member": spared_by_list,
    "trust in nobody": spared_nobody,
    "no answer about the API": then(allowed, lambda world: world.allowed.clear()),
    "an answer that lacks a scope": lambda world: without_audience(world, scopes=[]),
    "an answer that ends now": lambda world: without_audience(world, expires_at=world.now),
    "an answer that has ended": lambda world: without_audience(world, expires_at=world.ago(minutes=1)),
    "an answer about another document": other_document,
    "a code of another key": lambda world: bound(world, THEIRS),
    "a code of a key that is not shown": lambda world: bound(world, None),
    "a service that binds": unbound,
    "a code that ends now": lambda world: world.code.update(expires_at=world.at),
    "a code that has ended": lambda world: world.code.update(expires_at=world.ago(minutes=1)),
    "a code that was redeemed": redeemed_before,
    "a code that was redeemed and has ended": then(redeemed_before, lambda world: world.code.update(expires_at=world.ago(minutes=1))),
    "a code of another redirect": lambda world: world.claims.update(redirect_uri=f"{URI}/other"),
    "a code of another challenge": then(
        lambda world: world.code.update(code_challenge=CHALLENGE), lambda world: world.claims.update(code_challenge="other")
    ),
    "a code without the challenge": then(
        lambda world: world.code.update(code_challenge=CHALLENGE), lambda world: world.claims.update(code_challenge=None)
    ),
    "a challenge without need": then(
        lambda world: world.code.update(code_challenge=None), lambda world: world.claims.update(code_challenge=CHALLENGE)
    ),
    "a code of another service": lambda world: world.code.update(service_id=world.draw.one(world.sibling["id"], world.foreign["id"])),
    "another service asks": then(lambda world: world.ask_as(world.sibling), lambda world: setattr(world, "shown", world.secret_of_sibling)),
    "a service of another organization asks": lambda world: world.ask_as(world.foreign),
    "an unknown code": lambda world: world.claims.update(digest=sha256(b"unknown").digest()),
    "an unknown client": lambda world: setattr(world, "client", world.draw.id()),
    "a wrong secret": lambda world: setattr(world, "shown", sha256(b"wrong").digest()),
    "no secret": lambda world: setattr(world, "shown", None),
    "a secret of another service": lambda world: setattr(world, "shown", world.secret_of_sibling),
    "a proxy": lambda world: become(world, "proxy"),
    "a service of FAPI": lambda world: world.service.update(profile="fapi2"),
    "a session that was revoked": lambda world: world.parent.update(revoked_at=world.ago(minutes=1)),
    "a session that rests now": lambda world: world.parent.update(expires_at=world.now),
    "a session that ends now": lambda world: world.parent.update(ends_at=world.now),
    "a session in another's name": impersonated,
    "a session below another": below,
    "a session of another person": lambda world: world.parent.update(user_id=world.stranger["id"]),
    "a code of the stranger": lambda world: world.code.update(user_id=world.stranger["id"]),
}


def client(world: TokenWorld) -> None:
    if world.kind != "client":
        world.belong("client")


def bare(world: TokenWorld) -> None:
    """A session of an application without a client, which a person's own program uses."""
    if world.kind != "application":
        world.belong("application")
    become(world, "web")


def tied(world: TokenWorld, key: str | None, *, is_public: bool) -> None:
    client(world)
    world.session["key_thumbprint"] = OURS
    world.asks |= {"key": key, "is_public": is_public}
    world.service["dpop_bound_access_tokens"] = False
    world.service["credential_removed_at"] = None


def young(world: TokenWorld, keeper: Row, column: str, *, hours: int, proved: bool, by: timedelta = timedelta()) -> None:
    """The session is exactly as old as it may be, or by so much younger."""
    keeper[column] = hours
    since = world.ago(hours=hours) + by
    world.session |= {"proved_at": since if proved else None, "created_at": world.session["created_at"] if proved else since}
    world.service |= {"agent_since": None, "credential_removed_at": None}


def idle(world: TokenWorld, keeper: Row, column: str, by: timedelta = timedelta()) -> None:
    keeper[column] = 30
    world.session["last_seen_at"] = world.ago(minutes=30) + by


def acted_for(world: TokenWorld) -> None:
    world.service["is_agent"] = False
    world.impersonate()


def demand(world: TokenWorld, stated: str = "", **columns: Any) -> None:
    of_organization(world)
    world.unprove()
    world.organization |= {"mfa_grace_days": 7, **columns}
    if stated:
        provider = world.foreign_provider if stated == "elsewhere" else world.provider
        world.session |= {"factor_through": provider["id"], "factor_stated": "other" if stated == "other" else "mfa"}
        if stated == "off":
            provider["enabled"] = False


def demand_of_role(world: TokenWorld, *, held: bool) -> None:
    role = world.service_role(world.sibling)
    demand(world, all_factor="role_passkey", all_factor_role_id=role["id"], all_required_since=world.ago(days=20))
    if held:
        world.assign(role, "person", world.person, world.membership)


def administer(world: TokenWorld, by: str, **columns: Any) -> None:
    demand(world, admin_factor="second_factor", admin_required_since=world.ago(days=20), **columns)
    if world.membership is not None:
        world.membership |= {"role": "admin" if by == "role" else "member", "role_id": None}
        if by == "team":
            world.team(world.membership, role="admin")


def proved(world: TokenWorld, by: str, **columns: Any) -> None:
    demand(world, **columns)
    if world.membership is not None:
        world.membership |= {"role": "owner", "role_id": None}
    world.prove(by)


def lost(world: TokenWorld, by: timedelta) -> None:
    """The application has lost its credential, and the session began so much later."""
    client(world)
    world.asks["is_public"] = True
    if world.session["key_thumbprint"]:
        world.asks["key"] = OURS
    world.service["credential_removed_at"] = world.session["created_at"] - by


def foreign(world: TokenWorld, scopes: list[str]) -> None:
    granted_apis(world)
    world.asks["foreign_scopes"] = scopes


def foreign_without(world: TokenWorld, scopes: list[str]) -> None:
    named_in_vain(world)
    client(world)
    world.session["audiences"] = None
    world.asks |= {"resource": None, "foreign_scopes": ["read"], "scopes": scopes}


def break_line(world: TokenWorld) -> None:
    for one in world.parents:
        one["revoked_at"] = world.draw.perhaps(0.7, world.ago(minutes=1))


_DEMANDED: Final[Mapping[str, Callable[[TokenWorld], Row]]] = {
    "all": lambda world: {"mfa_required_since": world.ago(days=20)},
    "admins": lambda world: {"admin_factor": "passkey", "admin_required_since": world.ago(days=20)},
    "passkey": lambda world: {"all_factor": "passkey", "all_required_since": world.ago(days=20)},
}

_MINUTE: Final = timedelta(minutes=1)
_MOMENT: Final = timedelta(microseconds=1)

OF_TOKEN: Final[Mapping[str, Fault[TokenWorld]]] = {
    **OF_PLACE,
    "an unknown token": lambda world: world.asks.update(digest=sha256(b"unknown").digest()),
    "a token that was rotated": lambda world: world.token.update(rotated_at=world.ago(seconds=5), rotated_by=as_hex(b"before")),
    "a token before the last": lambda world: world.asks.update(digest=world.digest("before")),
    "a token that stays": then(client, lambda world: world.service.update(profile="fapi2")),
    "a service of FAPI without client": then(bare, lambda world: world.service.update(profile="fapi2")),
    "a session that was revoked": lambda world: world.session.update(revoked_at=world.ago(minutes=1)),
    "a session that rests now": lambda world: world.session.update(expires_at=world.now),
    "a session that ends now": lambda world: world.session.update(ends_at=world.now),
    "a line that was revoked": break_line,
    "a session whose proof is too old": then(
        of_organization, lambda world: young(world, world.organization, "session_hours", hours=4, proved=True)
    ),
    "a session that is too old": then(
        of_organization, lambda world: young(world, world.organization, "session_hours", hours=1, proved=False)
    ),
    "a session that is just young enough": then(
        of_organization, lambda world: young(world, world.organization, "session_hours", hours=4, proved=True, by=_MOMENT)
    ),
    "a session that is too old for the service": then(
        of_service, lambda world: young(world, world.service, "session_lifetime_hours", hours=1, proved=world.draw.chance(0.5))
    ),
    "a session that rests too long": then(of_organization, lambda world: idle(world, world.organization, "session_idle_minutes")),
    "a session that just does not rest too long": then(
        of_organization, lambda world: idle(world, world.organization, "session_idle_minutes", by=_MOMENT)
    ),
    "a session that rests too long for the service": then(of_service, lambda world: idle(world, world.service, "session_idle_minutes")),
    "an owner who acts": acted_for,
    "an owner who acts and is none": then(acted_for, lambda world: world.owner.update(is_platform_owner=False)),
    "an owner who acts and is deactivated": then(acted_for, lambda world: world.owner.update(deactivated_at=world.ago(minutes=1))),
    "an owner who acts for an owner": then(acted_for, lambda world: world.person.update(is_platform_owner=True)),
    "an owner who owes terms": then(lambda world: owes_terms(world, world.organization["id"]), acted_for),
    "terms of a person who is acted for": then(lambda world: owes_terms(world, None), acted_for),
    "a service that was an agent since": then(
        of_service, lambda world: world.service.update(is_agent=False, agent_since=world.session["created_at"] + _MOMENT)
    ),
    "a service that was an agent until then": then(
        of_service, lambda world: world.service.update(is_agent=False, agent_since=world.session["created_at"])
    ),
    "a second factor of all": lambda world: demand(world, **_DEMANDED["all"](world)),
    "a second factor of all, in an application": then(client, lambda world: demand(world, **_DEMANDED["all"](world))),
    "a second factor of one who is no member": then(
        lambda world: demand(world, **_DEMANDED["all"](world)),
        lambda world: world.service.update(sign_in_policy="anyone"),
        of_service,
        remove_member,
    ),
    "a second factor of the stranger": then(lambda world: demand(world, **_DEMANDED["all"](world)), acted_for),
    "a second factor after the grace": lambda world: demand(world, mfa_required_since=world.ago(days=7)),
    "a second factor within the grace": lambda world: demand(world, mfa_required_since=world.ago(days=7) + _MOMENT),
    "a second factor of a new member": then(
        lambda world: demand(world, **_DEMANDED["all"](world)), lambda world: (world.membership or {}).update(created_at=world.ago(days=6))
    ),
    "a second factor that the directory has stated": lambda world: demand(world, "here", **_DEMANDED["all"](world)),
    "a second factor that another directory has stated": lambda world: demand(world, "elsewhere", **_DEMANDED["all"](world)),
    "a second factor that a directory stated otherwise": lambda world: demand(world, "other", **_DEMANDED["all"](world)),
    "a second factor of a directory that is off": lambda world: demand(world, "off", **_DEMANDED["all"](world)),
    "a second factor of administrators": lambda world: administer(world, "role"),
    "a second factor of administrators by a team": lambda world: administer(world, "team"),
    "a second factor of administrators, of a member": lambda world: administer(world, "nothing"),
    "a passkey of administrators": lambda world: proved(world, "secret", **_DEMANDED["admins"](world)),
    "a passkey that administrators have": lambda world: proved(world, "both", **_DEMANDED["admins"](world)),
    "a passkey of all": lambda world: proved(world, "secret", **_DEMANDED["passkey"](world)),
    "a passkey that all have": lambda world: proved(world, "both", **_DEMANDED["passkey"](world)),
    "a passkey that proves nothing": lambda world: proved(world, "bare passkey", **_DEMANDED["passkey"](world)),
    "a passkey that the directory has stated": lambda world: demand(world, "here", **_DEMANDED["passkey"](world)),
    "a passkey of a role": lambda world: demand_of_role(world, held=True),
    "a passkey of a role of others": lambda world: demand_of_role(world, held=False),
    "a secret that was never used": lambda world: proved(world, "unproved secret", **_DEMANDED["all"](world)),
    "a passkey as second factor": lambda world: proved(world, "passkey", **_DEMANDED["all"](world)),
    "a token of another service": then(client, lambda world: world.asks.update(service=UUID(world.sibling["id"]))),
    "a client for the token of an account": then(
        lambda world: world.belong("account"), lambda world: world.asks.update(service=UUID(world.service["id"]))
    ),
    "a client for a bare token": then(bare, lambda world: world.asks.update(service=UUID(world.service["id"]))),
    "no client": then(
        client,
        lambda world: become(world, "web"),
        lambda world: world.authenticate("secret"),
        lambda world: world.asks.update(service=None),
    ),
    "no client where there is nothing to show": then(
        client, lambda world: world.show_nothing(), lambda world: world.asks.update(service=None, is_public=True)
    ),
    "no client where there is a secret": then(bare, lambda world: world.authenticate("secret")),
    "no client where there are keys": then(bare, lambda world: world.authenticate("keys")),
    "no client where keys can be fetched": then(bare, lambda world: world.authenticate("document")),
    "no client on a phone": then(bare, lambda world: world.authenticate("secret"), lambda world: become(world, "mobile")),
    "a credential that was lost": lambda world: lost(world, _MINUTE),
    "a credential that was lost long before": lambda world: lost(world, _MINUTE + _MOMENT),
    "a credential that was lost by one who has another": then(
        lambda world: lost(world, -_MINUTE), lambda world: world.asks.update(is_public=False)
    ),
    "a token of another key": lambda world: tied(world, THEIRS, is_public=True),
    "a token of a key that is not shown": lambda world: tied(world, None, is_public=False),
    "a token of another key of one who authenticates": lambda world: tied(world, THEIRS, is_public=False),
    "a service that binds": then(
        client,
        lambda world: world.service.update(dpop_bound_access_tokens=True),
        lambda world: world.session.update(key_thumbprint=None),
        lambda world: world.asks.update(key=None),
    ),
    "scopes beyond": then(client, lambda world: world.asks.update(scopes=[*world.scopes, "admin"])),
    "scopes without client": then(bare, lambda world: world.asks.update(scopes=["openid"])),
    "scopes of an API beyond": lambda world: foreign(world, ["read", "none"]),
    "scopes of an API": lambda world: foreign(world, ["read"]),
    "scopes of an API without one": lambda world: foreign_without(world, []),
    "scopes of an API without one, and others": lambda world: foreign_without(world, ["openid"]),
}


def put_into(world: W, faults: Mapping[str, Fault[W]]) -> W:
    """Of five worlds, two have no fault, two have one, and the last has two."""
    number, names = world.number // 2, list(faults)
    place = number % 5
    if place >= 2:
        world.faults.append(names[(number // 5 * 3 + place - 2) % len(names)])
    if place == 4:
        world.faults.append(world.draw.choice(names))
    for name in world.faults:
        faults[name](world)
    return world

"""Made worlds: rows for the tables that the redemption of a code and the exchange of a refresh token read, and what is asked of them.

A world is drawn by its number, so each run draws the same ones. First everything is as it has to be for whoever asks, in one of many ways:
agents, APIs, terms, roles, demands for a second factor, and so on. Then faults are put in (`faults.py`). Beside the person and the
organization, each world has a stranger and another organization that have something of everything: what is theirs must not count. Many
times lie exactly on a bound.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

from core.domain.federation.oauth.authorization_codes import Claim, Opening
from core.domain.federation.oauth.resources import OFFLINE_ACCESS
from core.domain.identifiers import DeviceId, EventId, LoginEventId, SessionId
from core.domain.identity.login_events import LoginEvent
from core.domain.key_proofs import KeyThumbprint
from tests.adapters.postgres.worlds.rows import HOST, TABLES, URI, Draw, Row, as_hex, blank

OURS, THEIRS = "key-of-ours", "key-of-theirs"
CHALLENGE: Final = "a-challenge"
SIGNED_IN: Final = "user.login.success"


class MadeWorld:
    """An organization with its service and a person, who are to be let in, and others beside them."""

    def __init__(self, number: int, now: datetime) -> None:
        self.draw = draw = Draw(f"world {number}")
        self.number = number
        self.now = now
        # The process's clock is beside the server's.
        self.at = now + timedelta(milliseconds=draw.one(0, 0, 250, -250))
        self.further: dict[str, list[Row]] = {}
        self.faults: list[str] = []
        self.organization = self._organization()
        self.other = self._organization()
        self.service = self._service(self.organization)
        self.sibling = self._service(self.organization)
        self.foreign = self._service(self.other)
        self.person = self._person()
        self.stranger = self._person()
        self.owner = self._person()
        self.owner |= {"is_platform_owner": True}
        self.provider = self._provider(self.organization)
        self.foreign_provider = self._provider(self.other)
        self.membership: Row | None = None
        self.consent: Row | None = None
        self.apis: list[Row] = []
        self.granted: list[Row] = []
        self.allowed: list[Row] = []
        self.methods = draw.one(["pwd"], ["pwd", "mfa"], ["fed"], ["fed", "mfa"], ["hwk", "mfa"])
        self.scopes = ["openid", *draw.some(["profile", "email", OFFLINE_ACCESS])]
        self.secret = sha256(f"secret {number}".encode()).digest()
        self.secret_of_sibling = self.digest("sibling")
        self.add("client_secrets", service_id=self.sibling["id"], digest=as_hex(self.secret_of_sibling))
        self._let_in()
        self._fill_with_others()
        self._decorate()

    def __str__(self) -> str:
        return f"world {self.number} with {' and '.join(self.faults) or 'no fault'}"

    def ago(self, **span: float) -> datetime:
        return self.now - timedelta(**span)

    def on(self, **span: float) -> datetime:
        return self.now + timedelta(**span)

    def add(self, table: str, **columns: Any) -> Row:
        row = {**blank(table, self.draw, self.now), **columns}
        self.further.setdefault(table, []).append(row)
        return row

    def rows(self) -> Iterator[tuple[str, list[Row]]]:
        there = {one["id"] for one in [*self.apis, *self.further.get("resource_servers", ())]}
        admissions = self.further.get("resource_admissions", [])
        admissions[:] = [one for one in admissions if one["resource_id"] in there]
        for table in TABLES:
            found = [*self._main().get(table, ()), *self.further.get(table, ())]
            if found:
                yield table, found

    def _main(self) -> Mapping[str, Sequence[Row]]:
        return {
            "all_organizations": [self.organization, self.other],
            "all_services": [self.service, self.sibling, self.foreign],
            "users": [self.person, self.stranger, self.owner],
            "upstream_providers": [self.provider, self.foreign_provider],
            "memberships": [self.membership] if self.membership else [],
            "consents": [self.consent] if self.consent else [],
            "resource_servers": self.apis,
            "resource_consents": self.allowed,
        }

    def digest(self, of: str) -> bytes:
        return sha256(f"{of} {self.number}".encode()).digest()

    def _organization(self) -> Row:
        draw = self.draw
        return {
            **blank("all_organizations", self.draw, self.now),
            "most_sessions": draw.perhaps(0.2, draw.one(1, 2)),
            "agents_since": draw.perhaps(0.5, self.ago(hours=3)),
            "session_hours": draw.perhaps(0.3, 24),
            "session_idle_minutes": draw.perhaps(0.3, 60),
            "metadata_clients": "any",
        }

    def _service(self, organization: Row) -> Row:
        draw = self.draw
        one = draw.id()
        kind = draw.one("web", "web", "web", "web", "mobile", "desktop", "api", "proxy", "metadata", "metadata")
        kept: str | None = draw.perhaps(0.3, f"client-{one}")
        digest = None
        if kind == "metadata":
            open_client = draw.chance(0.3)
            kept = f"open:{one}#{organization['id']}" if open_client else f"https://{HOST}/{one}#{organization['id']}"
            digest = None if open_client else draw.perhaps(0.8, as_hex(sha256(one.encode()).digest()))
        return {
            **blank("all_services", self.draw, self.now),
            "id": one,
            "client_id": draw.id(),
            "org_id": organization["id"],
            "service_type": kind,
            "kept_client_id": kept,
            "document_digest": digest,
            "trusted": draw.chance(0.4),
            "sign_in_policy": draw.one("anyone", "members", "assigned"),
            "dpop_bound_access_tokens": draw.chance(0.15),
            "session_lifetime_hours": draw.perhaps(0.3, 24),
            "session_idle_minutes": draw.perhaps(0.3, 60),
            "most_sessions": draw.perhaps(0.2, draw.one(1, 2)),
            "access_token_alg": draw.one("ES256", "RS256"),
            "credential_removed_at": draw.perhaps(0.3, self.ago(days=1)),
            "agent_since": draw.perhaps(0.1, self.ago(days=2)),
        }

    def _person(self) -> Row:
        draw = self.draw
        of_names = draw.chance(0.6)
        return {
            **blank("users", self.draw, self.now),
            "origin_org_id": draw.one(None, None, self.organization["id"], self.other["id"]),
            "email_verified_at": self.ago(days=9),
            "name": draw.perhaps(0.5, "Ada Lovelace") if of_names else None,
            "given_name": draw.perhaps(0.5, "Ada") if of_names else None,
            "zoneinfo": draw.perhaps(0.5, "Europe/London") if of_names else None,
            "language": draw.perhaps(0.5, "de") if of_names else None,
            "picture_id": draw.perhaps(0.3, draw.id()) if of_names else None,
            "profile_updated_at": draw.perhaps(0.5, self.ago(hours=5)) if of_names else None,
        }

    def _provider(self, organization: Row) -> Row:
        return {**blank("upstream_providers", self.draw, self.now), "org_id": organization["id"]}

    def vouch(self, *, by: Row | None) -> None:
        """Nobody has proved the person's address. A directory of the organization has vouched for it, or nobody has."""
        voucher = None if by is None else f"{by['id']}/{self.draw.id()}"
        self.person |= {"email_verified_at": None, "address_vouched_by": voucher}

    def tie(self, *, own: bool, role: str | None = None, person: Row | None = None, organization: Row | None = None) -> Row:
        role = role or self.draw.one("owner", "admin", "member", "member", "custom")
        person, organization = person or self.person, organization or self.organization
        role_id = None
        if role == "custom":
            role_id = self.add("roles", org_id=organization["id"])["id"]
        return {
            **blank("memberships", self.draw, self.now),
            "org_id": organization["id"],
            "user_id": person["id"],
            "role": role,
            "role_id": role_id,
            "own_since": self.ago(days=3) if own else None,
        }

    def assign(self, role: Row, way: str, person: Row, membership: Row | None) -> None:
        """Gives a role of a service: to the person, to a role of the organization that they have, or to a team that they are in."""
        assigned = {
            "organization_id": role["org_id"],
            "object_type": "service_role",
            "object_id": role["id"],
            "service_id": role["service_id"],
            "relation": "holder",
            "id": self.draw.id(),
            "created_at": self.ago(days=1),
        }
        if way == "person" or membership is None:
            self.add("relations", **assigned, user_id=person["id"])
        elif way == "role" and membership["role_id"] is not None:
            self.add("relations", **assigned, role_id=membership["role_id"])
        elif way == "role":
            self.add("relations", **assigned, built_in_role=membership["role"])
        elif way == "team":
            self.add("relations", **assigned, team_id=self.team(membership)["id"])
        else:
            self.team(membership, role="member")
            self.add("relations", **assigned, built_in_role="member")

    def team(self, membership: Row, role: str | None = None) -> Row:
        team = self.add("teams", org_id=membership["org_id"], role=role)
        self.add("team_members", team_id=team["id"], org_id=team["org_id"], user_id=membership["user_id"])
        return team

    def service_role(self, service: Row, **columns: Any) -> Row:
        return self.add("service_roles", org_id=service["org_id"], service_id=service["id"], **columns)

    def _let_in(self) -> None:
        draw, service = self.draw, self.service
        match draw.randrange(10):
            case 0 | 1:
                self.vouch(by=self.organization)
            case 2 | 3:
                self.vouch(by=self.other)
            case 4:
                self.vouch(by=None)
            case _:
                pass
        elsewhere = (self.person["address_vouched_by"] or "").startswith(self.other["id"])
        needed = service["sign_in_policy"] == "members"
        if needed or draw.chance(0.7):
            self.membership = self.tie(own=draw.chance(0.6) or (needed and elsewhere))
        if service["sign_in_policy"] == "assigned":
            self.assign(self.service_role(service), draw.one("person", "role", "team", "team role"), self.person, self.membership)
        self._agree_to_terms()
        self._grant_apis()
        spared = service["trusted"] and self.membership is not None and self.membership["own_since"] is not None
        if not (spared and draw.chance(0.5)):
            self.consent = self.consents()
            self.allowed = [self.allow(api, given) for api, given in zip(self.apis, self.granted, strict=True)]

    def consents(self) -> Row:
        return {
            **blank("consents", self.draw, self.now),
            "user_id": self.person["id"],
            "service_id": self.service["id"],
            "scopes": [*self.scopes, *self.draw.some(["phone"])],
        }

    def allow(self, api: Row, given: Row) -> Row:
        draw, service = self.draw, self.service
        named = [one["name"] for one in api["scopes"]]
        ends = service["is_agent"] or draw.chance(0.2)
        return {
            **blank("resource_consents", self.draw, self.now),
            "user_id": self.person["id"],
            "service_id": service["id"],
            "resource_id": api["id"],
            "identifier": api["identifier"],
            "scopes": [*given["scopes"], *draw.some([one for one in named if one not in given["scopes"]])],
            "withheld": draw.some(named) if draw.chance(0.3) else [],
            "granted_at": self.ago(hours=1),
            "document_digest": service["document_digest"],
            "expires_at": self.on(days=draw.one(1, 30, 300)) if ends else None,
        }

    def _agree_to_terms(self) -> None:
        draw = self.draw
        for keeper, chance in ((self.organization["id"], 0.3), (None, 0.15)):
            if draw.chance(chance):
                self.organization["asks_terms"] = True
                is_due = draw.chance(0.5)
                terms = self.add("terms", organization_id=keeper, due_at=self.ago(days=1) if is_due else self.on(seconds=1))
                if is_due or draw.chance(0.3):
                    self.accept(terms, self.person)
        if draw.chance(0.1):
            self.add("terms", organization_id=self.organization["id"], version="former", ended_at=self.ago(days=2))
        if not self.organization["asks_terms"] and draw.chance(0.1):
            # The organization's row does not ask for them.
            self.add("terms", organization_id=self.organization["id"])

    def accept(self, terms: Row, person: Row) -> None:
        self.add("terms_acceptances", user_id=person["id"], terms_id=terms["id"], organization_id=terms["organization_id"])

    def _grant_apis(self) -> None:
        draw, service = self.draw, self.service
        if draw.chance(0.2):
            service |= {"is_agent": True, "agent_since": draw.perhaps(0.7, self.ago(hours=2))}
        count = 1 if service["is_agent"] else draw.one(0, 0, 0, 1, 1, 2)
        for _ in range(count):
            api = self.api(self.organization)
            named = [one["name"] for one in api["scopes"]]
            self.grant(api, [named[0], *draw.some(named[1:])])

    def grant(self, api: Row, scopes: list[str]) -> None:
        self.apis.append(api)
        self.granted.append({"resource_id": api["id"], "identifier": api["identifier"], "scopes": scopes})

    def api(self, organization: Row) -> Row:
        """An API that admits the service. Its second scope asks for a permission, its third for a second factor."""
        draw, service = self.draw, self.service
        of_service = draw.one(None, self.service["id"], self.sibling["id"])
        proof: Row = draw.one(
            {"verified_at": self.ago(days=1), "next_check_at": self.on(days=1)},
            {"approved_at": self.ago(days=1)},
            {"identifier": f"http://localhost/{draw.id()}"},
        )
        scopes: list[Row] = [{"name": "read"}, {"name": "write", "permission": "write.all"}, {"name": "pay", "acr_values": ["mfa"]}]
        one = {
            **blank("resource_servers", self.draw, self.now),
            "org_id": organization["id"],
            "service_id": of_service,
            "admits": draw.one("all", "named"),
            "scopes": scopes[: draw.one(2, 3)],
            "token_lifetime": draw.perhaps(0.5, 600),
            "settles_at": draw.perhaps(0.3, self.ago(minutes=draw.one(0, 5))),
            "metadata_clients": "any",
            **proof,
        }
        if service["kept_client_id"] is not None and service["kept_client_id"].startswith("open:"):
            for keeper in (one, organization):
                keeper |= {"registered_clients": "on", "metadata_hosts": [HOST, "further.example"]}
        elif draw.chance(0.5):
            for keeper in (one, organization):
                keeper |= {"metadata_clients": "named", "metadata_hosts": ["further.example", HOST]}
        if one["admits"] == "named":
            self.add("resource_admissions", resource_id=one["id"], service_id=service["id"])
        keepers = [each for each in (self.service, self.sibling) if each["id"] == of_service]
        if keepers and draw.chance(0.7):
            if not any(each["service_id"] == of_service for each in self.further.get("permissions", ())):
                self.add("permissions", service_id=of_service, key="write.all")
            everybody = draw.chance(0.3)
            role = self.service_role(keepers[0], permissions=["write.all"], given_to_everybody=everybody)
            if not everybody and draw.chance(0.7):
                self.assign(role, draw.one("person", "role", "team"), self.person, self.membership)
        return one

    def _fill_with_others(self) -> None:
        """The stranger has here whatever the person may lack, and the person has it elsewhere."""
        draw, service = self.draw, self.service
        self.add("memberships", **self.tie(own=True, role="admin", person=self.stranger))
        elsewhere = self.add("memberships", **self.tie(own=draw.chance(0.5), role="owner", organization=self.other))
        if draw.chance(0.5):
            self.team(self.further["memberships"][0], role="admin")
        if draw.chance(0.5):
            self.team(elsewhere, role="admin")
        for person, place in ((self.stranger, service), (self.person, self.sibling)):
            self._consent_elsewhere(person, place)
            if draw.chance(0.5):
                plan = self.add("plans", service_id=place["id"], name="Theirs")
                self.add("subscriptions", service_id=place["id"], user_id=person["id"], plan_id=plan["id"], status="active")
        self.assign(self.service_role(self.sibling), "person", self.person, None)
        if draw.chance(0.3):
            self.assign(self.service_role(service), "person", self.stranger, None)
        for terms in self.further.get("terms", ()):
            self.accept(terms, self.stranger)
        if draw.chance(0.3):
            self.add("siem_configurations", org_id=self.other["id"])
        if draw.chance(0.3):
            self.add("webhooks", org_id=self.other["id"], events=[SIGNED_IN])
        self.add("mfa_secrets", user_id=self.stranger["id"], enabled_at=self.ago(days=1))
        self.add("passkeys", user_id=self.stranger["id"], second_factor_since=self.ago(days=1))
        self.add("service_claims", service_id=self.sibling["id"])
        if draw.chance(0.3):
            self.add("service_users", service_id=service["id"], user_id=self.stranger["id"], org_id=service["org_id"])

    def _consent_elsewhere(self, person: Row, place: Row) -> None:
        self.add("consents", user_id=person["id"], service_id=place["id"], scopes=["openid", "profile", "email", OFFLINE_ACCESS])
        for api in self.apis:
            self.add(
                "resource_consents",
                user_id=person["id"],
                service_id=place["id"],
                resource_id=api["id"],
                identifier=api["identifier"],
                scopes=["read", "write", "pay"],
                document_digest=place["document_digest"],
                expires_at=self.on(days=1),
            )

    def _decorate(self) -> None:
        """What changes the answer and what is written, and never the decision."""
        draw, service, person = self.draw, self.service, self.person
        if draw.chance(0.4):
            plan = self.add("plans", service_id=service["id"], features=draw.some(["fast", "large"]))
            for number in range(draw.one(1, 2)):
                self.add(
                    "subscriptions",
                    service_id=service["id"],
                    user_id=person["id"],
                    plan_id=plan["id"],
                    status=draw.one("active", "past_due", "expired") if number == 0 else draw.one("cancelled", "expired"),
                    managed=draw.chance(0.3),
                    current_period_end=self.on(minutes=draw.one(-60, 0, 60)),
                    created_at=self.ago(days=draw.one(1, 2, 2)),
                )
        self._tell_more()
        self._listen()
        if draw.chance(0.2):
            self.add("held_accounts", user_id=person["id"])
        for kept, upstream in (("codehost", None), (self.provider["id"], self.provider["id"])):
            if draw.chance(0.4):
                self.add("identities", user_id=person["id"], provider=kept, upstream_provider_id=upstream)
        if draw.chance(0.4):
            self.add(
                "service_users",
                service_id=service["id"],
                user_id=person["id"],
                org_id=service["org_id"],
                first_login_at=draw.perhaps(0.6, self.ago(days=5)),
                last_login_at=draw.one(None, self.ago(days=5), self.on(minutes=5)),
                own_since=draw.perhaps(0.4, self.ago(days=5)),
            )

    def _tell_more(self) -> None:
        if self.draw.chance(0.25):
            self.add("service_claims", service_id=self.service["id"])
        if self.draw.chance(0.2):
            self.service_role(self.service, given_to_everybody=self.draw.chance(0.5))
        if self.membership is not None and self.draw.chance(0.3):
            self.team(self.membership, role=self.draw.perhaps(0.3, "admin"))

    def _listen(self) -> None:
        if self.draw.chance(0.4):
            self.add("siem_configurations", org_id=self.service["org_id"], is_active=self.draw.chance(0.7))
        for _ in range(self.draw.one(0, 0, 1, 1, 2)):
            self.add(
                "webhooks",
                org_id=self.service["org_id"],
                is_active=self.draw.chance(0.8),
                events=self.draw.one([SIGNED_IN], ["user.joined", SIGNED_IN], ["user.joined"]),
            )

    def come_by(self, session: Row) -> None:
        """A directory has opened the session: of the organization, or of another one."""
        provider = self.draw.one(self.provider, self.provider, self.foreign_provider)
        self.add("directory_sessions", session_id=session["id"], upstream_provider_id=provider["id"])

    def redeemable(self) -> Row:
        """A session of the person's browser, by which a code can be redeemed."""
        draw = self.draw
        through = draw.perhaps(0.3, self.provider["id"])
        return {
            **blank("sessions", self.draw, self.now),
            "user_id": self.person["id"],
            "device_id": draw.perhaps(0.6, draw.id()),
            "created_at": self.ago(hours=2),
            "last_seen_at": self.ago(minutes=5),
            "expires_at": self.on(days=draw.one(0.01, 1, 60)),
            "ends_at": self.on(days=draw.one(0.02, 20, 80)),
            "authenticated_by": self.methods,
            "proved_at": self.ago(hours=1),
            "second_factor_at": draw.perhaps(0.4, self.ago(hours=1)),
            "minutes_idle": draw.perhaps(0.3, draw.one(30, 600)),
            "factor_through": through,
            "factor_stated": None if through is None else "mfa",
        }

    def grants(self) -> list[Row] | None:
        return [dict(one) for one in self.granted] or None

    def named(self) -> str | None:
        """The API that the request names: it has to, where there are several."""
        if not self.granted or (len(self.granted) == 1 and self.draw.chance(0.5)):
            return None
        return str(self.draw.choice(self.granted)["identifier"])


class CodeWorld(MadeWorld):
    """A code, and what a client sends to redeem it."""

    def __init__(self, number: int, now: datetime) -> None:
        super().__init__(number, now)
        draw = self.draw
        self.parent = self.redeemable()
        if "fed" in self.methods and draw.chance(0.7):
            self.come_by(self.parent)
        if draw.chance(0.06):
            self.service["profile"] = "fapi2"
        bound = draw.chance(0.3)
        self.key: str | None = OURS if bound or self.service["dpop_bound_access_tokens"] or draw.chance(0.2) else None
        self.code = {
            **blank("authorization_codes", self.draw, self.now),
            "digest": as_hex(self.digest("code")),
            "service_id": self.service["id"],
            "user_id": self.person["id"],
            "parent_id": self.parent["id"],
            "code_challenge": draw.one(CHALLENGE, CHALLENGE, None),
            "nonce": draw.perhaps(0.5, "a-nonce"),
            "scopes": self.scopes,
            "auth_time": self.ago(hours=1),
            "stated_at": draw.perhaps(0.3, self.ago(hours=1)),
            "authenticated_by": self.methods,
            "provider": draw.one("session", "password", self.provider["id"], ""),
            "created_at": self.ago(seconds=30),
            "expires_at": self.on(seconds=30),
            "audiences": self.grants(),
            "key_thumbprint": OURS if bound else None,
        }
        self.above: list[Row] = []
        self.ask_as(self.service)
        self.shown: bytes | None = self.secret
        self.add("client_secrets", service_id=self.service["id"], digest=as_hex(self.secret))
        self.claims: dict[str, Any] = {
            "digest": self.digest("code"),
            "redirect_uri": URI,
            "code_challenge": self.code["code_challenge"],
            "proof": self.digest("proof"),
            "resource": self.named(),
            "key": None if self.key is None else KeyThumbprint(self.key),
        }
        for _ in range(draw.one(0, 0, 0, 1, 2)):
            self._sign_in_before()

    def ask_as(self, service: Row) -> None:
        self.asks = service["id"]
        self.client = service["kept_client_id"] or service["client_id"]

    def _sign_in_before(self) -> None:
        """The person has a session at the service or its organization already, of a browser: a limit may end it."""
        before = self.add("sessions", **self.redeemable())
        service = self.draw.one(self.service["id"], self.sibling["id"], None)
        before |= {"organization_id": self.organization["id"], "service_id": service, "created_at": self.ago(hours=self.draw.one(3, 4))}

    def _main(self) -> Mapping[str, Sequence[Row]]:
        return {**super()._main(), "sessions": [*self.above, self.parent], "authorization_codes": [self.code]}

    def claim(self) -> Claim:
        return Claim(**self.claims)

    def opening(self) -> Opening:
        draw = Draw(f"opening {self.number}")
        login = LoginEvent(
            LoginEventId(UUID(draw.id())),
            None,
            "",
            None,
            draw.one(None, "192.0.2.1", "2001:db8::1"),
            draw.one(None, "Firefox"),
            self.at,
            device=draw.perhaps(0.3, DeviceId(UUID(draw.id()))),
            risk_score=draw.one(0.0, 0.5),
            risk_factors=draw.one((), ("new_device",)),
            country=draw.one(None, "DE"),
            spot=draw.one(None, (52, 13)),
        )
        return Opening(
            session=SessionId(UUID(draw.id())),
            refresh_digest=self.digest("refresh"),
            login=login,
            event=EventId(UUID(draw.id())),
            lifetime=timedelta(days=draw.one(1, 30, 90)),
            idle=draw.one(timedelta(minutes=15), timedelta(days=30)),
        )


class TokenWorld(MadeWorld):
    """A refresh token, and what a client sends to exchange it."""

    def __init__(self, number: int, now: datetime) -> None:
        super().__init__(number, now)
        draw, service = self.draw, self.service
        self.kind = ""
        if draw.chance(0.6):
            self.authenticate(draw.one("secret", "keys", "document"))
        root = {**self.redeemable(), "authenticated_by": self.methods}
        self.parents = [root]
        if draw.chance(0.3):
            self.parents.append(self._below(root))
        is_root = draw.chance(0.3)
        self.session = {**self.redeemable(), "authenticated_by": self.methods} if is_root else self._below(self.parents[-1])
        self.session |= {"created_at": self.ago(minutes=50), "last_seen_at": draw.one(self.ago(minutes=20), self.on(minutes=2))}
        if not is_root and "fed" in self.methods and draw.chance(0.7):
            self.come_by(self.parents[-1])
        self.token = {
            **blank("refresh_tokens", self.draw, self.now),
            "digest": as_hex(self.digest("token")),
            "session_id": self.session["id"],
            "created_at": self.ago(minutes=20),
        }
        self.add("refresh_tokens", digest=as_hex(self.digest("before")), session_id=self.session["id"]).update(_rotated(self))
        self.asks: dict[str, Any] = {
            "digest": self.digest("token"),
            "successor": self.digest("successor"),
            "by": self.digest("by"),
            "at": self.at,
            "idle": timedelta(days=30),
        }
        self.belong("client" if service["is_agent"] else draw.one("client", "client", "client", "application", "organization", "account"))
        if self.kind == "client" and draw.chance(0.25):
            service["profile"] = "fapi2"
        if not service["is_agent"] and draw.chance(0.2):
            self.impersonate()
        if service["is_agent"] and draw.chance(0.2):
            self.organization["agents"] = "forbidden"
        if draw.chance(0.02):
            self.token |= _rotated(self)
        if draw.chance(0.04):
            self.organization["status"] = "suspended"
        if draw.chance(0.02):
            self.asks["service"] = UUID(self.sibling["id"])
        self._demand()

    def belong(self, kind: str) -> None:
        """The session is of an application that is a client, of one that is none, of the organization or of the account alone."""
        draw, service = self.draw, self.service
        self.kind = kind
        self.session |= {
            "organization_id": None if kind == "account" else self.organization["id"],
            "service_id": service["id"] if kind in {"client", "application"} else None,
            "scopes": self.scopes if kind == "client" else None,
            "audiences": self.grants() if kind == "client" else None,
        }
        if kind != "client":
            service["is_agent"] = False
        if kind == "application":
            self.show_nothing()
            if service["service_type"] in {"mobile", "desktop"} and draw.chance(0.5):
                self.authenticate(draw.one("secret", "keys"))
        if kind == "organization":
            self.membership = self.membership or self.tie(own=True)
            if self.person["address_vouched_by"] is not None:
                self.membership["own_since"] = self.ago(days=3)
        is_public = kind != "client" or draw.chance(0.4)
        bound = draw.chance(0.5)
        key = OURS if bound or service["dpop_bound_access_tokens"] else None
        self.session["key_thumbprint"] = draw.perhaps(0.8, key)
        others = self.session["key_thumbprint"] is not None and not is_public and draw.chance(0.7)
        self.asks |= {
            "service": UUID(service["id"]) if kind == "client" else None,
            "scopes": draw.some(self.scopes) if kind == "client" and draw.chance(0.3) else [],
            "is_public": is_public,
            "resource": self.named() if kind == "client" else None,
            "key": THEIRS if others else key,
            "foreign_scopes": draw.one([], [], ["read"]) if kind == "client" and self.granted else [],
        }

    def _below(self, parent: Row) -> Row:
        return {**self.redeemable(), "authenticated_by": self.methods, "parent_id": parent["id"], "depth": parent["depth"] + 1}

    def authenticate(self, by: str) -> None:
        """The service has something to authenticate with."""
        if by == "secret":
            # It may have several. Nobody shows one here.
            number = len(self.further.get("client_secrets", ()))
            self.add("client_secrets", service_id=self.service["id"], digest=as_hex(self.digest(f"secret {number}")))
        else:
            self.service["jwks"] = {"keys": []}
        if by == "document":
            self.service |= {"jwks_uri": "https://app.example/keys", "jwks_fetched_at": self.ago(days=1)}

    def show_nothing(self) -> None:
        """The service has nothing to authenticate with."""
        secrets = self.further["client_secrets"]
        self.further["client_secrets"] = [one for one in secrets if one["service_id"] != self.service["id"]]
        self.service |= {"jwks": None, "jwks_uri": None, "jwks_fetched_at": None}

    def impersonate(self) -> None:
        self.session |= {"impersonator_id": self.owner["id"], "impersonation_id": self.draw.id()}

    @property
    def acting(self) -> Row:
        return self.person if self.session["impersonator_id"] is None else self.owner

    def _demand(self) -> None:
        """The organization asks for second factors and passkeys, and whoever acts has what it asks for."""
        draw, organization = self.draw, self.organization
        organization["mfa_grace_days"] = draw.one(0, 7)
        if draw.chance(0.25):
            organization["mfa_required_since"] = self.ago(days=20)
        if draw.chance(0.25):
            organization |= {"admin_factor": draw.one("second_factor", "passkey"), "admin_required_since": self.ago(days=20)}
        if draw.chance(0.25):
            organization |= {"all_factor": draw.one("passkey", "role_passkey"), "all_required_since": self.ago(days=20)}
            organization["all_factor_role_id"] = None
            if organization["all_factor"] == "role_passkey":
                role = self.service_role(self.sibling, given_to_everybody=draw.chance(0.5))
                organization["all_factor_role_id"] = role["id"]
                if not role["given_to_everybody"] and draw.chance(0.7):
                    self.assign(role, draw.one("person", "role"), self.person, self.membership)
        self.prove(draw.one("both", "both", "both", "passkey", "grace"))

    def prove(self, by: str) -> None:
        person = self.acting["id"]
        if by in {"both", "secret"}:
            self.add("mfa_secrets", user_id=person, enabled_at=self.ago(days=1))
        if by in {"both", "passkey"}:
            self.add("passkeys", user_id=person, second_factor_since=self.ago(days=1) if by == "passkey" else None)
        if by == "bare passkey":
            self.add("passkeys", user_id=person, second_factor_since=None)
        if by == "unproved secret":
            self.add("mfa_secrets", user_id=person, enabled_at=None)
        if by == "grace":
            since = self.organization["mfa_grace_days"]
            for demand in ("mfa_required_since", "admin_required_since", "all_required_since"):
                if self.organization[demand] is not None:
                    self.organization[demand] = self.ago(days=since) + timedelta(seconds=1)

    def unprove(self) -> None:
        """Takes every second factor away again."""
        for table in ("mfa_secrets", "passkeys"):
            self.further[table] = [one for one in self.further[table] if one["user_id"] != self.acting["id"]]
        self.session |= {"factor_through": None, "factor_stated": None}
        self.organization |= dict.fromkeys(
            ("mfa_required_since", "admin_factor", "admin_required_since", "all_factor", "all_required_since", "all_factor_role_id")
        )
        if self.membership is None:
            self.membership = self.tie(own=True)
        self.membership["own_since"] = self.ago(days=3)

    def _main(self) -> Mapping[str, Sequence[Row]]:
        return {**super()._main(), "sessions": [*self.parents, self.session], "refresh_tokens": [self.token]}


def _rotated(world: MadeWorld) -> Row:
    return {"rotated_at": world.ago(minutes=20), "rotated_by": as_hex(b"by")}

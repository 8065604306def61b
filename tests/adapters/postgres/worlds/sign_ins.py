"""Made worlds of sign-ins: what the look-up and the last look read, and what is asked of them."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

from core.domain.identity.sign_in import Attempt, Confirmed
from tests.adapters.postgres.worlds.made import MadeWorld
from tests.adapters.postgres.worlds.rows import Row, as_hex

HASH: Final = "$argon2id$made"
NOBODY: Final = "nobody"
_MOMENT: Final = timedelta(microseconds=1)


class SignInWorld(MadeWorld):
    """A person who signs in, from a device and to a place, and a stranger who has something of everything."""

    def __init__(self, number: int, now: datetime) -> None:
        super().__init__(number, now)
        draw = self.draw
        self.domain = f"d{number}.example"
        for one in (self.organization, self.other):
            one |= {
                "status": draw.one("active", "active", "active", "suspended"),
                "breached_at_sign_in": draw.one(None, "tell", "change"),
                "passkey_offers": draw.chance(0.8),
                "risk_counts_since": draw.perhaps(0.3, self.ago(days=1)),
                "risk_policies": [],
                "device_trust_days": draw.one(1, 30),
            }
        self._demand()
        self.person |= {
            "email": f"Ada-{number}@{self.domain}",
            "email_key": f"ada-{number}@{self.domain}",
            "is_platform_owner": draw.chance(0.15),
            "password_hash": draw.perhaps(0.9, HASH),
            "password_changed_at": draw.one(None, self.ago(days=1), self.now, self.now + _MOMENT),
            "passkey_offered_at": draw.one(None, self.ago(days=60), self.ago(days=30), self.ago(days=3)),
            "passkey_offers_ended_at": draw.perhaps(0.15, self.ago(days=1)),
            "deactivated_at": draw.perhaps(0.1, self.ago(days=1)),
        }
        if self.membership is None and draw.chance(0.2):
            self.membership = self.tie(own=draw.chance(0.6))
        if draw.chance(0.4):
            self.add("memberships", **self.tie(own=draw.chance(0.5), organization=self.other))
        self.devices = [self._device(person) for person in (self.person, self.person, self.stranger)]
        self._prove()
        self._log()
        self._sign_in_domain()
        self._guesses()
        self._steps()
        self.flow = self._flow()
        self.identity = self._identity()
        self.place = draw.one("NOWHERE", "SERVICE", "APPLICATION")
        self.shown = draw.one(None, None, *self.devices)
        self.is_known = draw.chance(0.75)

    # --- What there is.

    def _demand(self) -> None:
        draw, organization = self.draw, self.organization
        organization["mfa_grace_days"] = draw.one(0, 7)
        if draw.chance(0.3):
            organization["mfa_required_since"] = self.ago(days=draw.one(7, 20))
        if draw.chance(0.2):
            organization |= {"admin_factor": draw.one("second_factor", "passkey"), "admin_required_since": self.ago(days=20)}
        if draw.chance(0.2):
            organization |= {"all_factor": "passkey", "all_required_since": self.ago(days=20)}

    def _device(self, person: Row) -> Row:
        draw = self.draw
        until = draw.one(None, self.on(days=3), self.now, self.on(days=20), self.ago(days=1))
        return self.add(
            "devices",
            user_id=person["id"],
            token_digest=as_hex(sha256(draw.id().encode()).digest()),
            browser=draw.one("Firefox", "Firefox", "Chromium", None),
            os=draw.one("Linux", "Linux", None),
            last_used_at=self.ago(days=draw.one(1, 2, 3)),
            trust_digest=None if until is None else as_hex(self.digest("trust")),
            trusted_until=until,
            trusted_at=draw.perhaps(0.7, self.ago(days=2)) if until is not None else None,
            revoked_at=draw.perhaps(0.15, self.ago(days=1)),
        )

    def _prove(self) -> None:
        draw = self.draw
        for person in (self.person, self.stranger):
            if draw.chance(0.35):
                self.add("mfa_secrets", user_id=person["id"], enabled_at=draw.perhaps(0.7, self.ago(days=1)))
            if draw.chance(0.3):
                self.add("passkeys", user_id=person["id"], second_factor_since=draw.perhaps(0.5, self.ago(days=1)))

    def _log(self) -> None:
        draw = self.draw
        for number in range(draw.one(0, 0, 3, 8, 60)):
            success = draw.chance(0.6)
            self.add(
                "login_events",
                user_id=draw.one(self.person["id"], self.person["id"], self.person["id"], self.stranger["id"]),
                success=success,
                reason=None if success else draw.one("wrong_password", "throttled", "wrong_code"),
                flagged=draw.chance(0.1),
                country=draw.one(None, "DE", "FR"),
                spot=draw.one(None, [52, 13]),
                device_id=self.devices[0]["id"],
                organization_id=draw.one(None, self.organization["id"], self.other["id"]),
                created_at=self.ago(hours=number),
            )

    def _sign_in_domain(self) -> None:
        draw, person = self.draw, self.person["id"]
        if draw.chance(0.6):
            proved = draw.perhaps(0.85, self.ago(days=1))
            policy = draw.one("password_allowed", "upstream_only", "password_fallback_if_provider_unavailable")
            shared = draw.chance(0.5)
            self.add(
                "domain_routes",
                org_id=draw.one(self.organization["id"], self.organization["id"], self.other["id"]),
                domain=self.domain,
                verified_at=proved,
                next_check_at=None if proved is None else self.on(days=1),
                shared_provider="websuite" if shared else None,
                own_provider=None if shared else self.provider["id"],
                login_policy=policy,
                join_policy=draw.one("off", "ask", *["on"] * 6),
            )
        proved = draw.perhaps(0.5, self.ago(days=1))
        self.add(
            "domains",
            org_id=self.organization["id"],
            domain=self.domain,
            verified_at=proved,
            next_check_at=None if proved is None else self.on(days=1),
        )
        for one in (person, self.stranger["id"]):
            if draw.chance(0.08):
                self.add("former_members", org_id=self.organization["id"], user_id=one)
            if draw.chance(0.1):
                self.add("provisioned_users", org_id=self.organization["id"], user_id=one, is_member=draw.chance(0.5))
            if draw.chance(0.1):
                status = draw.one("pending", "declined", "approved")
                decided = None if status == "pending" else self.ago(days=1)
                self.add("join_requests", org_id=self.organization["id"], user_id=one, status=status, decided_at=decided)
        if draw.chance(0.1):
            self.add("former_addresses", user_id=self.stranger["id"], email_key=self.person["email_key"])
        if draw.chance(0.15):
            self.add(
                "invitations",
                org_id=self.organization["id"],
                email_key=self.person["email_key"],
                role=draw.one("member", "admin"),
                expires_at=draw.one(self.on(days=1), self.ago(days=1)),
            )

    def _guesses(self) -> None:
        draw = self.draw
        self.hour = self.now.replace(minute=0, second=0, microsecond=0)
        for slot, kind in enumerate(("network", "wide")):
            if draw.chance(0.5):
                self.add(
                    "guess_counts",
                    kind=kind,
                    slot=slot,
                    key=draw.one("there", "there", "elsewhere"),
                    hour=draw.one(self.hour, self.hour, self.hour - timedelta(hours=1)),
                    failures=draw.one(39, 40, 200),
                    seen=draw.one(1, 2**20 - 1),
                )

    def _steps(self) -> None:
        """What asks more of the person, in this organization or in the whole installation."""
        draw = self.draw
        if draw.chance(0.2):
            self.add("hooks", org_id=draw.one(None, self.organization["id"], self.other["id"]))
        if draw.chance(0.25):
            self.add("installation_risk_policies", counts_since=draw.perhaps(0.7, self.ago(days=1)))
        for _ in range(draw.one(0, 0, 1, 2)):
            keeper = draw.one(None, self.organization["id"], self.other["id"])
            self.add("all_profile_fields", org_id=keeper, required=draw.chance(0.5), asked_at=draw.one(None, "registration", "sign_in"))

    def _flow(self) -> Row:
        draw = self.draw
        signed_in = draw.perhaps(0.2, self.ago(minutes=1))
        return self.add(
            "flows",
            service_id=draw.one(None, self.service["id"], self.foreign["id"]),
            expires_at=draw.one(self.on(hours=1), self.on(hours=1), self.on(hours=1), self.now),
            signed_in_at=signed_in,
            proof_digest=None if signed_in is None else as_hex(self.digest("proof")),
        )

    def _identity(self) -> Row:
        draw = self.draw
        own = draw.one(None, self.provider, self.foreign_provider)
        self.provider["enabled"] = draw.chance(0.8)
        return self.add(
            "identities",
            user_id=draw.one(self.person["id"], self.person["id"], self.person["id"], self.stranger["id"]),
            provider="codehost" if own is None else own["id"],
            upstream_provider_id=None if own is None else own["id"],
            subject="by a word",
        )

    def _main(self) -> Mapping[str, Any]:
        # The sign-ins of others make identities of the same provider, too.
        others = self.further["identities"]
        taken = (self.identity["user_id"], self.identity["provider"])
        others[:] = [one for one in others if one is self.identity or (one["user_id"], one["provider"]) != taken]
        for table, key in (
            ("mfa_secrets", ("user_id",)),
            ("provisioned_users", ("org_id", "user_id")),
            ("memberships", ("org_id", "user_id")),
        ):
            found = self.further.get(table, [])
            first: dict[tuple[Any, ...], Row] = {}
            for one in found:
                first.setdefault(tuple(one[name] for name in key), one)
            found[:] = first.values()
        return super()._main()

    # --- What is asked.

    @property
    def with_token(self) -> bool:
        return self.shown is not None

    def tries(self) -> dict[str, Any]:
        """The parameters of the look-up."""
        draw = type(self.draw)(f"try {self.number}")
        email = self.person["email_key"] if self.is_known else f"nobody-{self.number}@{self.domain}"
        there = draw.chance(0.8)
        of_service = draw.one(self.service["slug"], self.service["slug"], self.sibling["slug"], "none")
        leads_on = self.place == "APPLICATION"
        return {
            "email_key": email,
            "mail_domain": self.domain,
            "account_key": sha256(email.encode()).hexdigest(),
            "account_limit": "sign_in_account",
            "account_burst": 10.0,
            "account_pace": 60.0,
            "device_limit": "sign_in_device",
            "device_burst": 10.0,
            "device_pace": 60.0,
            "device_digest": None if self.shown is None else bytes.fromhex(self.shown["token_digest"][2:]),
            "trust_digest": draw.one(None, self.digest("trust")),
            "device_type": "browser",
            "device_browser": draw.one("Firefox", "Firefox", None),
            "device_os": draw.one("Linux", "Linux", None),
            "device_history": 50,
            "guess_kinds": ["network", "wide"] if there else [],
            "guess_slots": [0, 1] if there else [],
            "guess_keys": ["there", "there"] if there else [],
            "guess_failures": [40, 160] if there else [],
            "guess_spreads": [9, 9] if there else [],
            "guess_hour": self.hour if there else None,
            "organization_slug": self.organization["slug"] if self.place == "SERVICE" else None,
            "service_slug": of_service if self.place == "SERVICE" else None,
            "application_organization": UUID(self.organization["id"]) if leads_on else None,
            "application_service": UUID(self.service["id"]) if leads_on else None,
        }

    def taken_before(self, tried: Mapping[str, Any]) -> None:
        """Somebody has tried before."""
        draw = type(self.draw)(f"before {self.number}")
        for limit, key in (("sign_in_account", tried["account_key"]), ("sign_in_device", self.devices[0]["id"])):
            if draw.chance(0.6):
                self.add("rate_limit_buckets", limit_name=limit, key=key, tokens=draw.one(0.0, 0.2, 3.0, 9.9))

    def looks(self) -> dict[str, Any]:
        """The parameters of the last look."""
        draw = type(self.draw)(f"look {self.number}")
        by_password = draw.chance(0.5)
        return {
            "user": UUID(self.person["id"]),
            "encoded": draw.one(HASH, HASH, HASH, "another") if by_password else None,
            "since": None if by_password else draw.one(self.now, self.now, self.ago(days=2)),
            "identity": None if by_password else draw.one(None, UUID(self.identity["id"]), UUID(self.identity["id"]), UUID(draw.id())),
            "email_key": self.person["email_key"] if draw.chance(0.9) else "an earlier one",
            "mail_domain": self.domain,
            "on_device": draw.one(None, *(UUID(one["id"]) for one in self.devices)),
            "service": draw.one(None, UUID(self.service["id"]), UUID(self.service["id"]), UUID(self.foreign["id"]), UUID(draw.id())),
            "flow": draw.one(None, UUID(self.flow["id"]), UUID(self.flow["id"]), UUID(draw.id())),
            "organization": draw.one(None, UUID(self.organization["id"]), UUID(self.other["id"])),
            "offered_again_after": draw.one(None, timedelta(days=30)),
        }


# The outcomes and the rare parts of a look-up.
OF_ATTEMPT: Final[Mapping[str, Callable[[SignInWorld, Attempt], object]]] = {
    "an account": lambda _, answer: answer.named is not None,
    "no account": lambda _, answer: answer.named is None,
    "a bucket of a device": lambda _, answer: answer.tries.limit.name == "sign_in_device",
    "a device of another's": lambda world, answer: world.with_token and answer.tries.limit.name == "sign_in_account",
    "throttled": lambda _, answer: answer.tries.wait > 0,
    "not throttled": lambda _, answer: answer.tries.wait == 0,
    "a second factor": lambda _, answer: answer.named and answer.named.mfa_enabled,
    "a device by its token": lambda _, answer: answer.named and answer.named.knowledge.by_token,
    "a device by its looks": lambda _, answer: answer.named and answer.named.knowledge.by_agent,
    "a device that brings trust": lambda _, answer: (
        answer.named and answer.named.knowledge.by_token and answer.named.knowledge.by_token.brings_trust
    ),
    "sign-ins": lambda _, answer: answer.named and answer.named.knowledge.sign_ins,
    "failures": lambda _, answer: answer.named and answer.named.knowledge.failed_attempts,
    "what breached passwords do": lambda _, answer: answer.named and answer.named.breached_at_sign_in.value != "off",
    "pressure": lambda _, answer: answer.pressure,
    "a realm": lambda _, answer: answer.sign_in_domain,
    "a realm of nobody's": lambda _, answer: answer.sign_in_domain and answer.named is None,
    "a realm that is joined": lambda _, answer: answer.sign_in_domain and answer.sign_in_domain.joins,
    "a destination": lambda _, answer: answer.destination,
    "no such destination": lambda world, answer: world.place == "SERVICE" and answer.destination is None,
    "a destination that is closed": lambda _, answer: answer.destination and not answer.destination.is_open,
    "an organization that may know": lambda _, answer: answer.named and answer.named.may_know_of_failures,
}

# The outcomes and the rare parts of a last look.
OF_LOOK: Final[Mapping[str, Callable[[SignInWorld, Confirmed | None], object]]] = {
    "confirmed": lambda _, answer: answer,
    "refused": lambda _, answer: answer is None,
    "an identity": lambda world, answer: answer and answer.is_connected and world.looks()["identity"],
    "no such identity": lambda _, answer: answer and not answer.is_connected,
    "a flow": lambda world, answer: answer and answer.flow_is_open and world.looks()["flow"],
    "a flow that is over": lambda _, answer: answer and not answer.flow_is_open,
    "one factor is enough": lambda _, answer: answer and answer.one_factor_is_enough,
    "one factor is not enough": lambda _, answer: answer and not answer.one_factor_is_enough,
    "listed": lambda _, answer: answer and answer.is_listed,
    "several organizations": lambda _, answer: answer and answer.belongs_to_several,
    "answers": lambda _, answer: answer and answer.owes_answers,
    "a passkey is offered": lambda _, answer: answer and answer.offers_passkey,
    "a destination": lambda _, answer: answer and answer.destination,
    "a destination that admits": lambda _, answer: answer and answer.destination and answer.destination.admits,
    "a destination that does not": lambda _, answer: answer and answer.destination and not answer.destination.admits,
    "a factor is owed": lambda _, answer: answer and answer.destination and answer.destination.owes_second_factor,
    "terms are owed": lambda _, answer: answer and answer.destination and answer.destination.owes_terms,
    "made elsewhere": lambda _, answer: answer and answer.is_made_elsewhere,
    "an organization that may know": lambda _, answer: answer and answer.may_know_of_failures,
    "a subscription": lambda _, answer: answer and answer.subscription.plan,
    "further facts": lambda _, answer: answer and answer.tells_more,
    "rules for risk": lambda _, answer: answer and answer.rules_asked,
    "rules of the installation": lambda _, answer: answer and any(one.organization is None for one in answer.rules_asked),
    "hooks": lambda _, answer: answer and answer.has_hooks,
    "terms": lambda _, answer: answer and answer.terms,
}

"""Agents of acme: `helper` acts for people at acme's APIs."""

from typing import Any, Final
from uuid import UUID

from tests.http.browsing import Tab
from tests.http.federation.arriving import left
from tests.http.federation.relying import CALLBACK, Application
from tests.http.federation.resources.asking import ORDERS, Asking
from tests.http.people import Person

READ: Final = "orders:read"


class Agents(Asking):
    """`shop` is an ordinary application of acme, and `helper` an agent."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.helper = self.application(self.acme, "helper", secret=True)
        self.switch(self.helper)

    def switch(self, application: Application, *, on: bool = True) -> None:
        self.people.change("update all_services set is_agent = %s where id = %s", on, application.service.id)

    def forbid(self, rule: str = "forbidden") -> None:
        self.people.change("update all_organizations set agents = %s where id = %s", rule, self.acme.id)

    async def asks(self, *resources: str, application: Application | None = None, person: Person | None = None, **changed: Any) -> Tab:
        return await self.asked(*resources, application=application or self.helper, person=person, **changed)

    async def let_in(
        self, *, application: Application | None = None, person: Person | None = None, days: int | None = None
    ) -> dict[str, Any]:
        """The tokens of an agent that the person has just let in, with everything ticked."""
        tab = await self.asks(application=application, person=person, prompt="consent")
        chosen = {} if days is None else {"days": str(days)}
        code = left(await tab.send(answer="allow", **chosen), CALLBACK)["code"]
        return self.kept((await self.redeem(application or self.helper, code)).ok())

    def grant(self, person: Person | None = None) -> dict[str, Any]:
        """The row of the person's only consent at an API."""
        (row,) = self.people.rows("select * from resource_consents where user_id = %s", (person or self.ada).user)
        return row

    def age(self, days: int) -> None:
        """As if the person had let the agent in so many days ago."""
        self.people.change(
            "update resource_consents set granted_at = granted_at - %s * interval '1 day', expires_at = expires_at - %s * interval '1 day'",
            *(days, days),
        )

    def session(self) -> UUID:
        (row,) = self.people.rows("select id from sessions where service_id = %s order by created_at desc limit 1", self.helper.service.id)
        return UUID(str(row["id"]))


__all__ = ["ORDERS", "READ", "Agents"]

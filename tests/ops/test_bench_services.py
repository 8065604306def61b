"""The rows that the benchmark writes for services fit together as the product's own rows do."""

from hashlib import sha256

import psycopg

from ops.bench.filling.fill_services import Size, grow_services
from tests.ops.test_bench_tenancy import look


def test_services_are_grown_with_all_that_belongs_to_them(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        before = look(connection)
        customers = grow_services(database_url, Size(services=25, users=5_000, keys=50))
        assert look(connection) == before

        def one(statement: str, *values: object) -> object:
            return (connection.execute(statement.encode(), values).fetchone() or ())[0]

        counts = {"users": 5_000, "organizations": 3, "services": 25, "plans": 25, "api_keys": 50, "service_users": 5_000 + 24 * 200}
        assert {table: one(f"select count(*) from {table}") for table in counts} == counts
        assert one("select array_agg(distinct user_count order by user_count)::text from services") == "{200,5000}"
        # They came by their own act: whom others only listed has no key.
        assert one("select count(*) from service_users where own_since is null") == 0
        # By these marks a query finds a page in the middle of many users.
        assert one("select count(*) from service_user_marks where service_id = %s", customers[0].service) == 5
        assert one("select sum(users) from service_user_marks") == counts["service_users"]
        assert one("select user_count from services where id = %s", customers[0].service) == 5_000
        assert len(customers) == 5_000
        assert len({one.service for one in customers}) == 25
        assert len({one.key for one in customers}) == 50
        for customer in customers[::100]:
            keyed = "select service_id from api_keys where digest = %s and starts_with(%s, prefix)"
            assert one(keyed, sha256(customer.key.encode()).digest(), customer.key) == customer.service
            assert one("select count(*) from service_users where (service_id, user_id) = (%s, %s)", customer.service, customer.user) == 1

import psycopg


def test_each_test_has_a_migrated_database_of_its_own(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        assert connection.execute("select count(*) from users").fetchone() == (0,)

"""Own texts, written straight into their table: past every check, as rows of an older release may be."""

from collections.abc import Mapping
from hashlib import sha256

from tests.http.people import People

Texts = Mapping[str, Mapping[str, str]]


def write_texts(people: People, organization: str | None, texts: Texts) -> str:
    """The texts of the organization with this slug, or of the installation, by language and key. They take the place of those before.
    Returns their digest.
    """
    digest = sha256(repr((organization, texts)).encode()).hexdigest()
    people.change(
        "delete from organization_texts where org_id is not distinct from (select id from organizations where slug = %s)", organization
    )
    for language, own in texts.items():
        for key, text in own.items():
            people.change(
                """
                insert into organization_texts (id, updated_at, org_id, key, language, text, based_on)
                values (gen_random_uuid(), now(), (select id from organizations where slug = %s), %s, %s, %s, '')
                """,
                organization,
                key,
                language,
                text,
            )
    if organization is None:
        people.change(
            "insert into installation_texts (digest) values (%s) on conflict (only_row) do update set digest = excluded.digest", digest
        )
    else:
        people.change("update all_organizations set texts_digest = %s where slug = %s", digest, organization)
    return digest

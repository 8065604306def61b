-- additive
-- A browser writes the host of an origin in small letters, and leaves out the port that its scheme has anyway.

create or replace function web_origins(uris text[]) returns text[] language sql immutable as $$
    select array(
        select distinct regexp_replace(lower(substring(uri from '^https?://[^/?]+')), '^(?:(https://.*):443|(http://.*):80)$', '\1\2')
          from unnest(uris) as uri
    )
$$;
reindex index services_origins;

-- additive
-- Mail and name servers know a domain in ASCII: bücher.example and xn--bcher-kva.example are one, and an ideographic full stop (U+3002) is a
-- dot. So the key of an address has the domain in ASCII. Where two accounts are there for one address, the one that has the key keeps it, or
-- else the one that is verified gets it. Until no process of the release before runs, such a process finds the few others by the new key
-- alone.

-- RFC 3492. The labels of a key are normalized and case folded already.
create function pg_temp.punycode(label text) returns text language plpgsql immutable as $$
declare
    digits   constant text := 'abcdefghijklmnopqrstuvwxyz0123456789';
    letters  constant integer[] := array(select ascii(letter) from regexp_split_to_table(label, '') with ordinality as one (letter, place) order by place);
    encoded  text := regexp_replace(label, '[^\x01-\x7f]', '', 'g');
    basic    constant integer := length(encoded);
    handled  integer := basic;
    reached  integer := 128;
    delta    bigint := 0;
    bias     integer := 72;
    letter   integer;
    next     integer;
    rest     bigint;
    base     integer;
    digit    integer;
begin
    if basic = cardinality(letters) then
        return label;
    end if;
    if basic > 0 then
        encoded := encoded || '-';
    end if;
    while handled < cardinality(letters) loop
        select min(one) into next from unnest(letters) as one where one >= reached;
        delta := delta + (next - reached)::bigint * (handled + 1);
        reached := next;
        foreach letter in array letters loop
            if letter < reached then
                delta := delta + 1;
            elsif letter = reached then
                rest := delta;
                base := 36;
                loop
                    digit := greatest(1, base - bias);
                    digit := least(26, digit);
                    exit when rest < digit;
                    encoded := encoded || substr(digits, (digit + (rest - digit) % (36 - digit))::integer + 1, 1);
                    rest := (rest - digit) / (36 - digit);
                    base := base + 36;
                end loop;
                encoded := encoded || substr(digits, rest::integer + 1, 1);
                delta := case when handled = basic then delta / 700 else delta / 2 end;
                delta := delta + delta / (handled + 1);
                base := 0;
                while delta > 455 loop
                    delta := delta / 35;
                    base := base + 36;
                end loop;
                bias := base + (36 * delta / (delta + 38))::integer;
                delta := 0;
                handled := handled + 1;
            end if;
        end loop;
        delta := delta + 1;
        reached := reached + 1;
    end loop;
    return 'xn--' || encoded;
end $$;

create function pg_temp.key_by_mail_domain(key text) returns text language sql immutable as $$
    select substring(key from '^(.*@)') || string_agg(pg_temp.punycode(label), '.' order by place)
      from regexp_split_to_table(substring(key from '[^@]*$'), U&'[.\3002]') with ordinality as labels (label, place)
$$;

-- Nobody gives up an address here. And of one that is given up, texts have what was written, which need not be its key any more.
create or replace function remember_address() returns trigger language plpgsql as $$
begin
    if new.email = old.email and new.email_verified_at is not null then
        return null;  -- only its key is made in another way
    end if;
    insert into former_addresses (user_id, email_key, held_until)
    select old.id, key, greatest(new.updated_at, now()) from (select old.email_key union select lower(old.email)) as written (key)
        on conflict (user_id, email_key) do update set held_until = excluded.held_until;
    delete from join_requests where user_id = old.id and status = 'pending';
    return null;
end $$;

update users
   set email_key = wanted.email_key
  from (
           select distinct on (known.email_key) known.id, known.email_key
             from (
                      select id, email_verified_at, pg_temp.key_by_mail_domain(email_key) as email_key
                        from users
                       where email_key ~ '@[^@]*[^\x01-\x7f][^@]*$'
                  ) as known
            order by known.email_key, known.email_verified_at is null, known.id
       ) as wanted
 where users.id = wanted.id and users.email_key <> wanted.email_key
   and not exists (select from users as others where others.email_key = wanted.email_key);

update users
   set pending_email_key = pg_temp.key_by_mail_domain(pending_email_key)
 where pending_email_key ~ '@[^@]*[^\x01-\x7f][^@]*$';

-- Those that wait are for one address once in an organization. Somebody who was invited by both has the other one.
update invitations
   set email_key = pg_temp.key_by_mail_domain(email_key)
 where email_key ~ '@[^@]*[^\x01-\x7f][^@]*$'
   and (status <> 'pending' or not exists (
           select
             from invitations as others
            where others.org_id = invitations.org_id and others.status = 'pending' and others.id <> invitations.id
              and pg_temp.key_by_mail_domain(others.email_key) = pg_temp.key_by_mail_domain(invitations.email_key)
       ));

insert into former_addresses (user_id, email_key, held_until)
select user_id, pg_temp.key_by_mail_domain(email_key), held_until
  from former_addresses
 where email_key ~ '@[^@]*[^\x01-\x7f][^@]*$'
    on conflict (user_id, email_key) do nothing;

drop function pg_temp.key_by_mail_domain(text);
drop function pg_temp.punycode(text);

-- additive
-- changes rows of member_words

-- By what its console finds a member of an organization while somebody types (docs/decisions/0231-a-console-that-answers.md): the name and the
-- part of the address before the @, from each of their words to the end. An organization has no words of a name that it may not see: that
-- of somebody whom it merely lists.
create table member_words (
    org_id        uuid not null,                        -- no reference: the membership's is one
    word          text collate "C" not null,
    membership_id uuid not null references memberships on delete cascade,
    primary key (org_id, word, membership_id)
);
create index member_words_of_membership on member_words (membership_id);

-- As people type: small letters, without accents, and with spaces for everything else. Ranges of characters mean the same in each locale.
create function plain_name(said text) returns text language sql immutable as $$
    select btrim(
               regexp_replace(
                   regexp_replace(replace(lower(normalize(said, nfkd)), U&'\00DF', 'ss'), U&'[\0300-\036F]+', '', 'g'),
                   U&'[\0001-/:-@\005B-`{-\00BF\2000-\206F\3000-\303F]+', ' ', 'g'
               )
           )
$$;

-- From each of the first six words to the end, sixty characters of it.
create function words_from_each(said text) returns setof text language sql immutable as $$
    select left(array_to_string(parts[number:], ' '), 60)
      from (select (string_to_array(plain_name(said), ' '))[:6] as parts) as name
     cross join generate_subscripts(parts, 1) as number
     where parts[number] <> ''
$$;

create function add_member_words(added uuid[]) returns void language sql as $$
    insert into member_words (org_id, word, membership_id)
    select members.org_id, words.word, members.id
      from memberships as members
      join users on users.id = members.user_id
     cross join lateral (
               select words_from_each(split_part(users.email_key, '@', 1)) as word
                union
               select words_from_each(coalesce(users.name, concat_ws(' ', users.given_name, users.family_name)))
                where members.own_since is not null
           ) as words
     where members.id = any (added)
        on conflict do nothing
$$;

create function add_words_of_members() returns trigger language plpgsql as $$
begin
    perform add_member_words(array(select id from rows));
    return null;
end $$;
create trigger memberships_worded after insert on memberships
    referencing new table as rows for each statement execute function add_words_of_members();

create function renew_words_of_member() returns trigger language plpgsql as $$
begin
    delete from member_words where membership_id = new.id;
    perform add_member_words(array[new.id]);
    return null;
end $$;
create trigger memberships_worded_anew after update of own_since on memberships
    for each row when ((new.own_since is null) <> (old.own_since is null)) execute function renew_words_of_member();

-- Whoever confirms a membership of this person at the same time waits here, or is waited for: the later one sees both.
create function renew_words_of_person() returns trigger language plpgsql as $$
declare
    theirs uuid[];
begin
    theirs := array(select id from memberships where user_id = new.id order by id for no key update);
    delete from member_words where membership_id = any (theirs);
    perform add_member_words(theirs);
    return null;
end $$;
create trigger users_worded_anew after update of email_key, name, given_name, family_name on users
    for each row
    when (
        new.email_key is distinct from old.email_key or new.name is distinct from old.name
        or new.given_name is distinct from old.given_name or new.family_name is distinct from old.family_name
    )
    execute function renew_words_of_person();

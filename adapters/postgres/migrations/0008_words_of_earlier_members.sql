-- additive, in steps

-- Members who joined before 0007.

-- step: batches of memberships by id
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
 where members.id between %(first)s and %(last)s
    on conflict do nothing;

-- additive
-- The language that a person reads. Not chosen: the one of the request that a mail or page answers.

alter table users add column language text check (language ~ '^[a-z]{2,8}$');

-- additive, in steps
-- Which hashes of other systems remain, by their kind and their parameters: refusals take as long as the slowest of them.

-- step: index users_foreign_hashes
create index concurrently users_foreign_hashes
    on users ((split_part(password_hash, '$', 3) || '$' || split_part(password_hash, '$', 4)))
 where left(password_hash, 9) = '$foreign$';

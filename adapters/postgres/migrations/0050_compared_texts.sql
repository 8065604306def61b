-- additive, in steps

-- After a release that changes our texts, an actor compares the own ones with them, some at a time. It finds them by this index, so that a
-- batch costs the same however many texts there are. A process of the release before finds them without it.
-- step: index organization_texts_to_compare
create index concurrently organization_texts_to_compare on organization_texts (language, compared_with);

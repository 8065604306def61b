-- additive
--
-- Every page for platform owners counts the organizations whose texts wait for their yes. A process of the release before asks for none.
-- The index has the whole condition, so that the planner knows how few there are.

create index organizations_whose_texts_wait on all_organizations ((coalesce(texts_digest <> approved_texts, texts_digest is not null)));

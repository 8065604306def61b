-- additive, in steps

-- step: index client_assertions_of_documents
create unique index concurrently client_assertions_of_documents on client_assertions (digest) where service_id is null;

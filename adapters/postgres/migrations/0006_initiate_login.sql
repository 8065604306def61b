-- additive

-- Where an application begins a sign-in that somebody asks for elsewhere (docs/decisions/0254-open-begins-the-sign-in.md). Null: nowhere.
alter table all_services add column initiate_login_uri text;

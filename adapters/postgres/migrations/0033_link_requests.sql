-- additive
-- In which session somebody asked to connect an identity, where they went to the provider in another: an application, or the frontend of an
-- organization, asks, and the person answers in their browser. And when a state was used, and where it has led to: it is used up by getting
-- another digest, so that lagging processes do not find it either.

alter table oauth_states add column asked_in uuid;
alter table oauth_states add column used_at timestamptz;
alter table oauth_states add column led_to text;

-- additive
--
-- The page of an application that a browser loads in a frame when its person signs out: docs/decisions/0208-front-channel-logout.md. And the
-- profile of an application: docs/decisions/0209-the-profile-fapi2.md. A process of the release before shows no frames, and holds no profile,
-- so a profile is set after its last process has ended.

alter table all_services add column frontchannel_logout_uri text;                  -- null: it hears of sign-outs in no frame
alter table all_services add column frontchannel_logout_session_required boolean not null default false;
alter table all_services add column profile text not null default 'standard'
    constraint all_services_profile check (profile in ('standard', 'fapi2'));

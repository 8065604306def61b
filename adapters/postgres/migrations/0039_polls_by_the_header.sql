-- additive
-- Some libraries try two ways to authenticate at each poll, by the header first.

alter table device_codes add column polled_in_header boolean not null default false;

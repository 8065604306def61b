-- Each device that is deleted, by itself or with its account, is looked for among these.
create index preauthentications_of_device on preauthentications (device_id) where device_id is not null;

-- additive

-- How large each table was on each day, so that operators see what grows and how fast. A table in parts is one table here.
create table storage_samples (
    day   date   not null,
    name  text   not null,
    bytes bigint not null,
    primary key (day, name)
);

-- additive
-- A binding for sign-outs is said by metadata alone. Where their address was replaced by hand since, nobody has said one.

alter table saml_configurations add column slo_by_hand boolean not null default false;

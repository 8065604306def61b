-- additive
-- Who has deactivated an account, in a column of its own: `deactivated_by_org_id` is emptied with the organization, and then says the same as
-- of an account that the platform has deactivated. A trigger keeps it, also where a lagging process changes the account. Of whom that is not
-- known any more, it was the platform.

alter table users add column deactivated_by uuid;

update users set deactivated_by = deactivated_by_org_id where deactivated_at is not null and deactivated_by_org_id is not null;

create function remember_who_deactivated() returns trigger language plpgsql as $$
begin
    if new.deactivated_at is null or new.anonymized_at is not null then
        new.deactivated_by := null;
    elsif new.deactivated_by_org_id is not null then
        new.deactivated_by := new.deactivated_by_org_id;
    elsif new.deactivated_at is distinct from old.deactivated_at then
        new.deactivated_by := null;
    end if;
    return new;
end $$;
create trigger users_deactivated before update of deactivated_at, deactivated_by_org_id on users
    for each row execute function remember_who_deactivated();

-- additive
-- A delivery is written by the statement that publishes its event. With a reference, a sign-in that published at the wrong moment would fail
-- with the webhook, or wait until it and all its deliveries were deleted. The janitor removes what belongs to no webhook any more, also where
-- a process of the release before has deleted it.

alter table webhook_deliveries drop constraint webhook_deliveries_webhook_id_fkey;

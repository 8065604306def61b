-- additive
--
-- When the account was last locked, by its person, its maker or the platform. It is locked now if it was deactivated at this very moment. The
-- moment stays when the account is open again: links in mails from before it lock nothing any more. A process of the release before takes a
-- locked account for one that the platform has deactivated, which opens nothing either.

alter table users add column locked_at timestamptz;

-- additive, in steps

-- step: validate mailed_tokens_purpose_check of mailed_tokens
alter table mailed_tokens validate constraint mailed_tokens_purpose_check;

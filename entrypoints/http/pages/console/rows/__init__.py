"""Lists of small things in a form: a row of fields for each."""

"""Who may get an account by the pages, and how many mails strangers may ask for."""

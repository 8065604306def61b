"""The pages behind the links in our mails: choosing a password, proving an address. The link is all that we know of the visitor."""

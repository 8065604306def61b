"""People arrive in the systems of applications, by SCIM: connections outwards, and who goes by them."""

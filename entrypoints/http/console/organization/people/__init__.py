"""The people of an organization in its console: members, end users, invitations, requests to join, teams, roles and fields."""

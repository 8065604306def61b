"""What an organization has sent to others: webhooks, its SIEM, and the deadline within which receivers accept what ends an access."""

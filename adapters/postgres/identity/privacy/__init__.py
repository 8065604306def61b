"""What parts people and their accounts: what holds an account, what is handed out and what is forgotten of a person."""

"""What people say of themselves: their profile, their user name and their picture."""

"""What people see of an application beside its name."""

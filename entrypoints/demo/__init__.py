"""What `postern demo` shows: an organization with people and a service, and an application that signs them in."""

"""The parts of `postern demo`: an organization with people and a service, and an application that signs these people in."""

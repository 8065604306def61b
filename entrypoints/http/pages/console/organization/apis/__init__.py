"""The pages of an organization's APIs."""

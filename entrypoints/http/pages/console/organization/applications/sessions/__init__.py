"""What an application says about its sessions."""

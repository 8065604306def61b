"""Fields that organizations and the installation declare, and the values that they keep of people."""

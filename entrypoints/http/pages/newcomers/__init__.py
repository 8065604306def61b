"""Pages of further providers of the installation: for people whom only they know, and for platform owners who test one."""

"""Pages on the hosts of applications behind a proxy, which the proxy leads to Postern. They stand below `/.postern`, with the styles that
they load: everything else on such a host is the application's.
"""

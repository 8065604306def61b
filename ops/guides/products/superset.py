PRODUCT=type("P",(),{"name":"superset"})()

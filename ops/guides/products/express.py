PRODUCT=type("P",(),{"name":"express"})()

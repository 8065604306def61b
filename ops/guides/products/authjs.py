PRODUCT=type("P",(),{"name":"authjs"})()

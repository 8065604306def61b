PRODUCT=type("P",(),{"name":"pgadmin"})()

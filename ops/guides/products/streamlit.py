PRODUCT=type("P",(),{"name":"streamlit"})()

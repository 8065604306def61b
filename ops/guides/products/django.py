ALLAUTH=type("P",(),{"name":"allauth"})();MOZILLA=type("P",(),{"name":"mozilla"})()

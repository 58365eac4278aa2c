"""Who may send requests: the token and the sessions of browsers, trusted proxies, other web sites."""

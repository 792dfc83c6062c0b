"""The proxies that lbgen renders for."""

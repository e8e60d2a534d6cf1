"""The judges: each knows one promise, and looks at the services themselves, never at what the code says of them."""

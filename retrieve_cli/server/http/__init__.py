"""HTTP doors: requests in, answers out; each file has the routes of one."""

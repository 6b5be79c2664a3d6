"""HTTP/1.1 for the controller and the command line: a client of one server, and a small server.

httptools parses; connections, proxies and time limits are here, without a word of Kubernetes
(docs/decisions/0034-http-by-a-parser.md). `transport` and `controller/report/server` use it.
"""

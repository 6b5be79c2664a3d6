"""Reports of the agent: names, times, digests and errors; never content.

status        the status document, as JSON values
status_text   the same in words, for a terminal
metrics       Prometheus' text format; configmap_reload_metrics: the names of configmap-reload
endpoints     the response for each path
server        a small HTTP server for them
reporter      joins them, and logs transitions
"""

"""The propagation map: which workloads use a source, and whether their pods run with its content.

A local HTTP server shows the status document of a controller on one page. It knows neither a
cluster nor a kubeconfig: `cli` gives it the function that fetches the document.

1. `polls` fetches the document when a page asks, one time for all pages
2. `map` and `panel` decide what is shown, in which order and in which words; pure
3. `server` answers with that as JSON; the files in `static` draw it and decide nothing
"""

"""The in-pod agent: makes an application load changes of its mounted ConfigMaps and Secrets.

`agent` is the loop; each step of it uses these packages in order:

    1. observe   watch/      what the directories hold, and what was announced
    2. decide    decide/     pure: what is to be done about it
    3. report    report/     log, /status, /metrics
    4. act       act/        check, publish, tell processes, verify; process/: the processes

`settings/` has its settings, `runtime/` the loop, the clocks and the log. Nothing here uses
the Kubernetes API, and nothing needs more than the standard library; typing, dataclasses and
asyncio are not imported either, since they would take more memory than all of this.
"""

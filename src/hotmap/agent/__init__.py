"""Beside or around the application: makes it load its mounted ConfigMaps and Secrets.

`agent` is the loop, each step of which goes through the wings:

    1. observe   watch/      what the directories hold, and what was announced
    2. decide    decide/     pure: what is to be done about it
    3. report    report/     log, /status, /metrics
    4. act       act/        check, publish, tell processes, verify; process/: the processes

`settings/` is what it is told to do, `runtime/` the loop, the clocks and the log. Nothing here uses
the Kubernetes API, and nothing needs more than the standard library; typing, dataclasses and
asyncio are not imported either, since they would take more memory than all of this.
"""

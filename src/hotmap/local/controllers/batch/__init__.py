"""Controllers of Jobs and CronJobs, and of what finished Jobs leave.

A sync of a Job decides in `job_view`, which does no I/O, and writes in `job`.
"""

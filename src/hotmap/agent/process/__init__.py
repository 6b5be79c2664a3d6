"""Processes: children of the agent, the supervised application, and those of other containers.

    spawn             fork and exec, as a parent should
    child_processes   children with a deadline, and reaping
    environment       variables from mounted directories, by Kubernetes' rules
    supervisor        one application: start, restart, stop
    application       the supervised application with its environment
    process_table     finds the process that a target names, in /proc
    signals           sends a signal to just that process

When to do any of it is decided elsewhere.
"""

"""Actions of the agent: check content, publish it, and make processes load it.

    executor         carries out the reconciler's commands, and returns the results
    checker          built-in checks, then check commands on a copy (`check_copy`)
    stage            publishes what passed, as the kubelet does
    attempt          one rule's actions in order, then its probes
    actions          one function for each kind of action
    http             requests and responses; http_exchange: the same without blocking
    probes           verification that an action took effect; worker_probe: by new processes
    state_file       what was tried and loaded, for the next start

`decide` chooses the actions. Nothing here blocks the loop: what may take time is a child
process (`process`) or waits for a descriptor.
"""

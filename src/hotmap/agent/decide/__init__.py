"""Decides what to do about changed content. Pure: no files, processes, sockets, clocks, randomness.

`reconciler` takes observations and results of earlier commands, and returns the next commands. It
consists of

    settle             when a series of changes is over
    readings           what may have been visible between two readings
    start_evidence     whether a process has read content at its start
    gate               which content passed its check
    progress           how far one rule is: desired, tried, loaded
    exposure           which processes may have read other content
    rule_state         one rule: the files it is about, its progress and counts
    directory_states   how far each directory is: announced, projected, passed, loaded
    announcement       what the controller announced, compared with what is there

Content is known by digests (`digest`). Times are seconds of the caller's clock.
"""

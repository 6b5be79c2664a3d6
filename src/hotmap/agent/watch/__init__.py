"""Watching: the content of the directories, and when it changed.

    detector      which directories changed, and one consistent reading of all of them
    plain_files   the same for directories that no kubelet writes
    mounts        what is mounted at a path, and whether it can change
    observer      when to poll and to read: settle time, retries; and the announcement's file

Nothing here decides what a change means.
"""

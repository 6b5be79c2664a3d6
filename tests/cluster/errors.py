"""The one error of the test bed: a sentence that says what is wrong, where, and what to do.

Everything that a person can cause or cure (no root, a used port, a full disk) is raised as
`TestBedError`; the command line prints it without a traceback, the fixtures fail with it.
"""

import errno


class TestBedError(Exception):
    """The test bed cannot do what was asked; the message is one sentence for a person."""

    __test__ = False  # pytest: the name begins with Test


def disk_sentence(error: OSError) -> str | None:
    """Return a sentence if the disk is full, or None if `error` means something else."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return None
    return (
        f"The disk is full: {error.filename or 'a file of the test bed'} could not be written;"
        " free some space, or set HOTMAP_TESTBED to a folder on a larger disk."
    )

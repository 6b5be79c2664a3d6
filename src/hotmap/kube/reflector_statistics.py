"""What a reflector counts, for metrics and health."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ReflectorStatistics"]


class ReflectorStatistics(NamedTuple):
    """The state of a watched resource and its counts."""

    #: plural name of the resource
    resource: str
    #: True once the store is complete
    synced: bool
    #: True while a watch is open
    connected: bool
    #: seconds since the server last sent a byte, or since the start before the first one
    last_byte_age: float
    #: lists begun, not counting pages
    lists: int
    #: watch requests, including those for the initial objects
    watches: int
    #: watch events that carried an object
    events: int
    #: bookmarks received
    bookmarks: int
    #: watches that sent nothing for too long although the server responded
    silences: int
    #: attempts that ended with an error
    errors: int
    #: objects that cannot be decoded or transformed now, and so are not in the store
    unreadable: int
    #: True while access to the resource is denied, or the server does not have it
    refused: bool
    #: the last error; "" after a watch has received data again
    last_error: str

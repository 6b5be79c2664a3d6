"""Connections that carry several streams: exec, attach and port-forward.

    protocols.py       the protocols that a request for a WebSocket names, and the token among them
    upgrade.py         HTTP connection → WebSocket or SPDY/3.1, by the headers of the request
    spdy.py            SPDY/3.1 frames, without a connection
    spdy_streams.py    the streams of a SPDY connection
    channels.py        the channels of a WebSocket
    remote_command.py  exec and attach over either of them
    port_forward.py    port-forward over either of them

kubernetes: k8s.io/cri-streaming/pkg/streaming is the other end of what clients speak.
"""

"""What everything else stands on: the poll loop, the clocks and the log.

Nothing here knows what the agent does. A loop of our own, since asyncio takes 11 MB.
"""

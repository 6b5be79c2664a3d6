"""The poll loop, the clocks and the log, which all other packages use.

Nothing here depends on what the agent does. The loop is our own, since asyncio takes 11 MB.
"""

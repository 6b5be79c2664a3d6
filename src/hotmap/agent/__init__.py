"""Beside or around the application: sees mounted files change, and makes the process load them.

The way of one change: `observe` → `check` → `stage` → `act` → `probes` → `report`. What is to be
done next is decided in `decide`; `run` joins the parts on one poll loop (`loop`). Nothing here
speaks to an API server, and nothing needs more than the standard library.
"""

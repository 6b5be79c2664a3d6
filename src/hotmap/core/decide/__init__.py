"""From a snapshot of one consumer to a decision, and to the record of it."""

"""Brings one consumer to what its sources say."""

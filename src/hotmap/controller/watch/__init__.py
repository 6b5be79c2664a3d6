"""Keeps the known state of the cluster; decides nothing and writes nothing."""

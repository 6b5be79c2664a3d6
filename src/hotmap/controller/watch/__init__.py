"""Keeps what is known of the cluster; decides nothing and writes nothing."""

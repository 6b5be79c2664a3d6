"""The command line: the composition root, the only package that imports all others.

Each command imports what it needs when it runs, so that `hotmap --help` stays fast.
"""

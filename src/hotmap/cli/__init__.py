"""The command line: the composition root, the only room that imports all the others.

Each command imports what it needs when it runs, so that `hotmap --help` stays quick.
"""

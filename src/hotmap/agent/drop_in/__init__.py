"""Runs the agent with the command line of another reloader: replace the image, keep the arguments.

configmap_reload             jimmidyson/configmap-reload 0.15
prometheus_config_reloader   prometheus-operator's prometheus-config-reloader 0.93
go_flags                     the two grammars of command lines that they use

Each translates flags into the agent's settings, and nothing else of the agent knows them. Imported
only when one of them is asked for.
"""

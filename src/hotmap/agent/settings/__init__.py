"""Settings of the agent, from flags, a rules file and known programs.

`flags` splits the command line, `rules_file` reads the TOML document, and `loader` joins both and
returns `settings.Settings`: `flag_values` parses the flags, `flag_rules` makes the rules that
follow from them and from `known_programs`, and `constraints` checks the whole. `values` and
`probes` parse single values. `web_config_file` reads a file of prometheus-config-reloader. Nothing
here acts: no process, socket or directory is touched.
"""

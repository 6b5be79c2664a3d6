"""Settings of the agent, from flags, a rules file and known programs.

`flags` splits the command line, `rules_file` reads the TOML document, `loader` joins both with
`known_programs`, checks the result as a whole and returns `settings.Settings`. `values` and
`probes` parse single values. Nothing here acts: no process, socket or directory is touched.
"""

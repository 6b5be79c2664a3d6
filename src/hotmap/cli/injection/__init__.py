"""The injection of the agent into manifests: from text to text.

1. `yaml_nodes` parses a manifest into nodes that know their position in the text; `manifest` is
   a manifest whose pod templates are edited.
2. `pod_templates` finds the pod templates in it; `validation` rejects malformed ones.
3. `agent_removal` removes what an earlier injection added.
4. `agent_addition` adds the agent that an `injection` describes, with `pod_inspection`,
   `agent_flags`, `agent_paths`, `stage_mounts`, `environment`, `containers`, `volumes` and
   `supervisor_command`.
5. `yaml_editor` edits the text so that it describes the new template, and changes nothing else;
   `yaml_writer` writes what is new, in the manifest's style.

Steps 2 to 4 take values and return values. `record` is what step 4 leaves in the manifest for
step 3.
"""

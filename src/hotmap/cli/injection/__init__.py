"""What `hotmap inject` is made of: the manifest as text, and what each mode adds to a pod.

1. `documents` reads a manifest as a tree in which every value knows its place in the text.
2. `pods` finds the pod templates in it; `shape` says where one is none.
3. `removal` works out a template without what an earlier injection wrote.
4. `template` works out a template with the agent, from `agent_flags`, `staging` (mounts),
   `variables` (environment), `additions` (containers, volumes) and `wrapping` (a supervisor).
5. `edits` changes the text so that it means the new template, and nothing else moves.

2 to 4 take values and give values. `record` is what 4 leaves in the manifest for 3.
"""

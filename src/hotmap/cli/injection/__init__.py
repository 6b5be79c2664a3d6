"""What `hotmap inject` is made of: the manifest as text, and what each mode adds to a pod.

1. `documents` reads a manifest as a tree in which every value knows its place in the text.
2. `pods` finds the pod templates in it.
3. `removal` works out a template without what an earlier injection wrote.
4. `template` works out a template with the agent: with `additions` (containers and volumes),
   `staging` (mounts) and `variables` (environment). Values in, values out.
5. `edits` changes the text so that it means the new template, and nothing else moves.

`record` is what 4 leaves in the manifest for 3.
"""

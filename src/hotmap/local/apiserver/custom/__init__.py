"""Custom resources: kinds that CustomResourceDefinitions add while a control plane runs.

kubernetes: apiextensions-apiserver. `schema` has what structural schemas do to objects,
`validation` what they find wrong, `definition` the kind CustomResourceDefinition, `kind` the kinds
that come of one, and `resources` keeps those registered.
"""

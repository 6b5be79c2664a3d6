"""Custom resources: kinds that CustomResourceDefinitions add while a control plane runs.

kubernetes: apiextensions-apiserver. `schema` has what structural schemas do to objects,
`validation` what they find wrong, `definition` the kind CustomResourceDefinition, `definition_spec`
the types of its spec, and `kind` the kinds that definitions add. `apiserver/custom_resources`
registers these.
"""

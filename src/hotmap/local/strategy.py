"""How objects of one kind are defaulted, validated, updated, deleted and shown.

A kind without rules of its own takes `Strategy` as it is; the built-in kinds override what they
need in `apiserver/kinds` (kubernetes: apiserver/pkg/registry/rest, create_strategy.go,
update_strategy.go, delete.go; pkg/registry/<group>/<resource>/strategy.go).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple

from hotmap.local.json_object import JsonObject
from hotmap.local.names import subdomain_errors

if TYPE_CHECKING:
    from hotmap.local.access import Reviewer
    from hotmap.local.field_errors import FieldError
    from hotmap.local.group_version_kind import GroupVersionKind

FieldPath = tuple[str, ...]
#: Fields of metadata that are a user's (ResetObjectMetaForStatus).
WRITTEN_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")
#: None is a cell without anything in it.
Cell = str | int | float | bool | None


class Column(NamedTuple):
    """A column of `kubectl get`; those of priority 1 are shown with `-o wide` only.

    `cell` gets the object and the present time in POSIX seconds.
    """

    name: str
    cell: Callable[[JsonObject, float], Cell]
    priority: int = 0
    type: str = "string"
    #: None for "name" where the column is called so.
    format: str | None = None


class ScalePaths(NamedTuple):
    """JSON paths of the desired replicas, the current ones, and the selector as text."""

    replicas: str
    status_replicas: str
    selector: str = ""


def field_labels(*labels: str) -> tuple[tuple[str, FieldPath], ...]:
    """Return selectable fields whose labels are their paths."""
    return tuple((label, tuple(label.split("."))) for label in labels)


class Strategy:
    """Stores objects as they are sent: no defaults, no validation except of metadata.

    Stateless. Methods that change an object do so in place; objects have the form that
    `apiserver.encoding.arrange_fields` gives them.
    """

    #: Whether fields have the types of `apiserver.api_types`: nulls and empty lists leave no trace.
    typed = True
    #: Whether the kind comes of a CustomResourceDefinition.
    is_custom = False
    #: Subresource → fields of metadata that an update through it leaves as they are.
    kept_metadata: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    #: Where objects have what their Scale shows; None for the fields of workloads.
    scale: ScalePaths | None = None
    #: How fields are merged and owned, where neither the types nor a schema say it.
    structure: object = None
    #: Field selectors beyond metadata.name and metadata.namespace, as (label, path).
    selectable_fields: tuple[tuple[str, FieldPath], ...] = ()
    #: Whether `default` fills in stored objects as well, whenever they are read.
    defaults_on_read = False
    #: What `kubectl get` shows; none means name and age.
    columns: tuple[Column, ...] = ()
    #: Whether metadata.generation counts changes of the spec.
    has_generation = False
    #: Whether a PUT may leave out the resourceVersion (AllowUnconditionalUpdate).
    unconditional_update = True
    #: Whether a PUT may create (AllowCreateOnUpdate).
    create_on_update = False

    #: What becomes of dependents where a deletion does not say it.
    default_propagation: Literal["Background", "Orphan"] = "Background"
    #: What each answer warns of; "" for nothing.
    deprecation = ""

    #: Whether messages of invalid objects name their kind.
    names_kind = True
    #: Whether the answer to a question tells when it was given.
    has_creation_time = False

    def review(self, obj: JsonObject, reviewer: Reviewer) -> JsonObject | None:
        """Answer an object that is a question; None where objects are stored."""
        return None

    def name_errors(self, name: str) -> list[str]:
        """Return why a name is invalid (ValidateNameFunc)."""
        return subdomain_errors(name)

    def decode(self, kind: GroupVersionKind, obj: JsonObject) -> None:
        """Bring a sent object into its stored form, before anything else happens to it.

        Raises:
            BadRequest: a field has another JSON type than its own.
        """

    def drop_nulls(self, obj: JsonObject) -> None:
        """Leave out nulls that a read object may not have, in place; not of applied ones."""

    def unknown_fields(self, obj: JsonObject) -> list[str]:
        """List the paths of fields that a sent object should not have, where `typed` is False."""
        return []

    def openapi_schema(self) -> JsonObject | None:
        """Return the schema of the objects, where `typed` is False and there is one."""
        return None

    def prepare_create(self, obj: JsonObject) -> None:
        """Set what a client may not choose at a create (PrepareForCreate)."""

    def initial_status(self, obj: JsonObject) -> JsonObject | None:
        """Return the status of a new object, None for none; only of kinds with that subresource."""
        return {}

    def default(self, obj: JsonObject) -> None:
        """Fill in the fields that the client left out."""

    def validate(self, obj: JsonObject) -> list[FieldError]:
        """Find everything wrong with an object beside its metadata (Validate)."""
        return []

    def reset(self, old: JsonObject, new: JsonObject) -> None:
        """Carry over what no update changes, nor its owners, beside the status (GetResetFields)."""

    def prepare_update(self, old: JsonObject, new: JsonObject) -> None:
        """Carry over what an update of the main resource may not touch (PrepareForUpdate).

        The status is carried over already where it is a subresource.
        """

    def validate_update(self, old: JsonObject, new: JsonObject) -> list[FieldError]:
        """Find everything wrong with an update of the main resource (ValidateUpdate)."""
        return self.validate(new)

    #: Annotations that metadata alone does not show, since upstream keeps them in fields.
    hidden_annotations: tuple[str, ...] = ()

    def warnings(self, obj: JsonObject) -> list[str]:
        """Return warnings of an object that is created (WarningsOnCreate)."""
        return []

    def update_warnings(self, old: JsonObject, new: JsonObject) -> list[str]:
        """Return warnings of an update; the generation is the new one (WarningsOnUpdate)."""
        return self.warnings(new)

    def deletion_warning(self, propagation: str | None) -> str:
        """Return what a deletion that says so much about dependents has to be warned of."""
        return ""

    def validate_status(self, obj: JsonObject) -> list[FieldError]:
        """Find everything wrong with an object whose status was updated."""
        return []

    def prepare_subresource(self, old: JsonObject, new: JsonObject, subresource: str) -> None:
        """Carry over what an update of a subresource may not touch, in its own field."""

    def validate_subresource(
        self, old: JsonObject, new: JsonObject, subresource: str
    ) -> list[FieldError]:
        """Find everything wrong with an update of a subresource."""
        return self.validate_status(new) if subresource == "status" else []

    def changes_generation(self, old: JsonObject, new: JsonObject) -> bool:
        """Return whether an update of the main resource counts up the generation."""
        return self.has_generation and old.get("spec") != new.get("spec")

    def deletion_grace(self, obj: JsonObject, wanted: int | None) -> int:
        """Return the grace period in seconds (CheckGracefulDelete); `wanted` is the client's."""
        return 0

    #: Whether a finished deletion returns the object instead of a Status.
    returns_deleted = False
    #: Whether there are grace periods, which a returned object then tells.
    graceful = False
    #: Whether an object that is being deleted tells its grace period.
    tells_grace = True

    def add_finalizers(self, obj: JsonObject) -> None:
        """Let a deletion wait for what has to be done before it."""

    def prepare_delete(self, obj: JsonObject) -> None:
        """Mark in the object's own fields that its deletion has begun."""

    def has_finalizers(self, obj: JsonObject) -> bool:
        """Return whether finalizers outside of metadata keep an object."""
        return False

"""Query parameters and DeleteOptions, read and checked.

Kubernetes: apimachinery/pkg/apis/meta/v1/types.go and .../validation/validation.go.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

from hotmap.core.errors import BadRequest
from hotmap.local.access import SYSTEM, UserInfo
from hotmap.local.apiserver.decode_errors import json_type, unsigned_error
from hotmap.local.apiserver.header_text import header_text
from hotmap.local.apiserver.routes import is_true
from hotmap.local.apiserver.status import internal, invalid_options
from hotmap.local.field_errors import (
    FieldError,
    forbidden_field,
    invalid_value,
    required,
    too_long,
    unsupported,
)
from hotmap.local.json_object import JsonObject

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotmap.local.client import Propagation

FieldValidation = Literal["", "Ignore", "Strict", "Warn"]

_MAX_MANAGER = 128
# As Go's time.ParseDuration reads it.
_DURATION = re.compile(r"[-+]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h))+)")

# As Go's strconv.ParseInt reads it; a text beyond that length has leading zeros at best.
_INTEGER = re.compile("[-+]?[0-9]+")
_INT64, _INT64_LENGTH = 1 << 63, 100

#: Field of DeleteOptions → its type here and in Go.
_DELETE_TYPES: Mapping[str, tuple[type, str]] = {
    "gracePeriodSeconds": (int, "int64"),
    "preconditions": (dict, "v1.Preconditions"),
    "orphanDependents": (bool, "bool"),
    "propagationPolicy": (str, "v1.DeletionPropagation"),
    "dryRun": (list, "[]string"),
}


class WriteOptions(NamedTuple):
    """The query parameters of a write: field manager, dry run, field validation."""

    manager: str
    dry_run: bool = False
    field_validation: FieldValidation = ""
    #: Whether an apply takes fields of other managers over.
    force: bool = False
    user: UserInfo = SYSTEM
    #: The subresource through which the main resource is written; its managedFields are known.
    through: str = ""
    #: What the answer has to warn of is added here; None without a reader.
    warnings: list[str] | None = None


class ListOptions(NamedTuple):
    """The query parameters of a list; `limit` 0 means everything."""

    label_selector: str = ""
    field_selector: str = ""
    limit: int = 0
    continue_token: str = ""
    resource_version: str = ""
    resource_version_match: str = ""


class WatchOptions(NamedTuple):
    """The query parameters of a watch; `timeout` in seconds, None if the server chooses."""

    since: str | None = None
    label_selector: str = ""
    field_selector: str = ""
    send_initial_events: bool | None = None
    bookmarks: bool = False
    timeout: float | None = None


class DeleteOptions(NamedTuple):
    """The options of a delete, from body and query; `uid`, `resource_version` are preconditions."""

    grace_period: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    #: None for what the kind does by itself.
    propagation: Propagation | None = None
    dry_run: bool = False
    user: UserInfo = SYSTEM


def write_options(query: Mapping[str, str], user_agent: str, options: str) -> WriteOptions:
    """Read the query of a create, update or patch.

    The default fieldManager is the first word of the user agent (apiserver:
    managerOrUserAgent).

    Raises:
        Invalid: a parameter has an impossible value.
    """
    errors: list[FieldError] = []
    manager = query.get("fieldManager") or _manager_of(user_agent)
    if len(manager.encode()) > _MAX_MANAGER:
        errors.append(too_long("fieldManager", _MAX_MANAGER))
    for position, char in enumerate(manager):
        if not char.isprintable():
            at = len(manager[:position].encode())
            why = f"invalid character U+{ord(char):04X} (at position {at})"
            errors.append(invalid_value("fieldManager", manager, why))
    errors += _dry_run_errors(_dry_run(query))
    validation = query.get("fieldValidation", "")
    if validation not in ("", "Ignore", "Strict", "Warn"):
        known = ("", "Ignore", "Strict", "Warn")
        errors.append(unsupported("fieldValidation", validation, known))
    if errors:
        raise invalid_options(options, errors)
    return WriteOptions(
        manager or "unknown",
        "dryRun" in query,
        cast("FieldValidation", validation),
        is_true(query.get("force")),
    )


def _manager_of(user_agent: str) -> str:
    """Return the manager that a user agent stands for (apiserver: prefixFromUserAgent)."""
    first = header_text(user_agent).partition("/")[0]
    printable = "".join(char for char in first if char.isprintable())
    return printable.encode()[:_MAX_MANAGER].decode(errors="ignore")


def check_patch_options(query: Mapping[str, str], *, is_apply: bool) -> None:
    """Check what apply needs and other patches may not have (ValidatePatchOptions).

    Raises:
        Invalid: fieldManager is missing, or force is given to another patch.
    """
    if is_apply and not query.get("fieldManager"):
        raise invalid_options(
            "PatchOptions", [required("fieldManager", "is required for apply patch")]
        )
    if not is_apply and "force" in query:
        why = "may not be specified for non-apply patch"
        raise invalid_options("PatchOptions", [forbidden_field("force", why)])


def check_include(query: Mapping[str, str]) -> None:
    """Check what the rows of a Table shall carry (apiserver: checkTableOptions).

    Raises:
        BadRequest: it is none of the three.
    """
    include = query.get("includeObject", "")
    if include not in ("", "Metadata", "Object", "None"):
        why = "must be 'Metadata', 'Object', 'None', or empty"
        error = invalid_value("includeObject", include, why)
        raise BadRequest(f"Unable to convert to Table as requested: {error}")


def list_options(query: Mapping[str, str]) -> ListOptions:
    """Read the query of a list.

    Raises:
        Invalid: a parameter is for watches only.
        BadRequest: the limit or the timeout is not a number.
    """
    integer(query, "timeoutSeconds")
    if "sendInitialEvents" in query:
        why = "sendInitialEvents is forbidden for list"
        raise invalid_options("ListOptions", [forbidden_field("sendInitialEvents", why)])
    return ListOptions(
        label_selector=query.get("labelSelector", ""),
        field_selector=query.get("fieldSelector", ""),
        limit=integer(query, "limit") or 0,
        continue_token=query.get("continue", ""),
        resource_version=query.get("resourceVersion", ""),
        resource_version_match=query.get("resourceVersionMatch", ""),
    )


def check_timeout(query: Mapping[str, str]) -> None:
    """Refuse a time-out that Go does not read as a duration (apiserver: request_deadline.go).

    Raises:
        BadRequest: it is not a duration.
    """
    sent = query.get("timeout", "")
    if sent and _DURATION.fullmatch(sent) is None:
        raise BadRequest("invalid timeout specified in the request URL")


def watch_options(query: Mapping[str, str]) -> WatchOptions:
    """Read the query of a watch.

    Raises:
        Invalid: parameters exclude each other.
        BadRequest: the timeout is not a number.
        ApiError: 500, as upstream, for a resourceVersion that is not a number.
    """
    initial = query.get("sendInitialEvents")
    match = query.get("resourceVersionMatch", "")
    path = "resourceVersionMatch"
    errors: list[FieldError] = []
    if initial is not None and match != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        errors.append(forbidden_field(path, why))
    if initial is None and match:
        why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        errors.append(forbidden_field(path, why))
    if match not in ("", "NotOlderThan"):
        errors.append(unsupported(path, match, ("NotOlderThan",)))
    if query.get("continue"):
        why = "resourceVersionMatch is forbidden when continue is provided"
        errors.append(forbidden_field(path, why))
    if errors:
        raise invalid_options("ListOptions", errors)
    since = query.get("resourceVersion") or None
    if since is not None and (why := unsigned_error(since)):
        raise internal(f'resourceVersion: Invalid value: "{since}": {why}')
    timeout = integer(query, "timeoutSeconds")
    return WatchOptions(
        since,
        query.get("labelSelector", ""),
        query.get("fieldSelector", ""),
        send_initial_events=is_true(initial) if initial is not None else None,
        bookmarks=is_true(query.get("allowWatchBookmarks")),
        timeout=float(timeout) if timeout else None,
    )


def delete_options(query: Mapping[str, str], body: JsonObject) -> DeleteOptions:
    """Read what a delete asks for; what the body has wins over the query.

    Raises:
        Invalid: a value is impossible.
        BadRequest: a number is none.
    """
    _check_delete_types(body)
    grace = body.get("gracePeriodSeconds")
    if grace is None:
        grace = integer(query, "gracePeriodSeconds")
    dry_run = body.get("dryRun") or _dry_run(query)
    propagation = body.get("propagationPolicy")
    if propagation is None:
        propagation = query.get("propagationPolicy")
    orphan = body.get("orphanDependents")
    if orphan is None and "orphanDependents" in query:
        orphan = is_true(query["orphanDependents"])
    errors: list[FieldError] = []
    if orphan is not None and propagation is not None:
        why = "orphanDependents and deletionPropagation cannot be both set"
        errors.append(invalid_value("propagationPolicy", propagation, why))
    elif orphan is not None:
        propagation = "Orphan" if orphan else "Background"
    if propagation not in (None, "Background", "Foreground", "Orphan"):
        known = ("Foreground", "Background", "Orphan", "nil")
        errors.append(unsupported("propagationPolicy", propagation, known))
    errors += _dry_run_errors(dry_run)
    if errors:
        raise invalid_options("DeleteOptions", errors)
    preconditions = body.get("preconditions") or {
        name: query[name] for name in ("uid", "resourceVersion") if query.get(name)
    }
    return DeleteOptions(
        grace,
        preconditions.get("uid"),
        preconditions.get("resourceVersion"),
        cast("Propagation | None", propagation),
        bool(dry_run),
    )


def _check_delete_types(body: JsonObject) -> None:
    """Refuse options whose fields have another type than Go's."""
    for name, (wanted, go_type) in _DELETE_TYPES.items():
        value = body.get(name)
        is_flag = isinstance(value, bool) and wanted is not bool
        if value is not None and (not isinstance(value, wanted) or is_flag):
            raise BadRequest(
                f'DeleteOptions in version "v1" cannot be handled as a DeleteOptions: json: cannot '
                f"unmarshal {json_type(value)} into Go struct field DeleteOptions.{name} of type "
                f"{go_type}"
            )


def integer(query: Mapping[str, str], name: str) -> int | None:
    """Read a whole number from a query, None where it is not given.

    Raises:
        BadRequest: it is not a number of 64 bits.
    """
    text = query.get(name)
    if text is None:
        return None
    if _INTEGER.fullmatch(text) is None:
        raise BadRequest(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    if len(text) > _INT64_LENGTH or not -_INT64 <= int(text) < _INT64:
        raise BadRequest(f'strconv.ParseInt: parsing "{text}": value out of range')
    return int(text)


def _dry_run(query: Mapping[str, str]) -> list[str]:
    return [query["dryRun"]] if "dryRun" in query else []


def _dry_run_errors(values: list[str]) -> list[FieldError]:
    return [unsupported("dryRun", [value], ["All"]) for value in values if value != "All"]

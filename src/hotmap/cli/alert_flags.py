"""The flags of `hotmap controller` for alerts of rollouts, read by `alert_settings`."""

from typing import Annotated, NamedTuple

from hotmap.cli.options import Flag

__all__ = ["AlertFlags"]

_SECTION = "Alert flags"


class AlertFlags(NamedTuple):
    """The values of the flags; None where one is not set."""

    alert_webhook_url: Annotated[
        str | None,
        Flag("Send an alert for each rollout to this URL.", "URL", section=_SECTION),
    ] = None
    alert_webhook_url_file: Annotated[
        str | None,
        Flag("Read that URL from a file, such as a mounted Secret.", "FILE", section=_SECTION),
    ] = None
    alert_sink: Annotated[
        str | None,
        Flag(
            "Format of alerts: that of a chat service, or plain text.",
            "slack|teams|gchat|raw",
            default="raw",
            section=_SECTION,
        ),
    ] = None
    alert_additional_info: Annotated[
        str | None,
        Flag(
            "Begin each alert with this text, such as a cluster's name.", "TEXT", section=_SECTION
        ),
    ] = None
    alert_webhook_proxy: Annotated[
        str | None, Flag("Send alerts through this HTTP proxy.", "URL", section=_SECTION)
    ] = None

"""Alerts in the format of each receiver; nothing in them becomes markup of a chat."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hotmap.controller.report.alert_messages import LONGEST_MESSAGE, Alert, format_alerts
from hotmap.controller.settings import AlertSink
from hotmap.core.model.objects import ObjectKey

WEB = ObjectKey("Deployment", "shop", "web")
APP = ObjectKey("ConfigMap", "shop", "app")
LOGIN = ObjectKey("Secret", "shop", "login")
ALERT = Alert(WEB, (APP, LOGIN), "ConfigMap shop/app A changed (env A): rolling out")

PLAIN = (
    "one : Reloader detected changes in app of type CONFIGMAP and login of type SECRET in "
    "namespace shop. Hence reloaded web of type Deployment in namespace shop. "
    "ConfigMap shop/app A changed (env A): rolling out"
)
MARKED = (
    "one : Reloader detected changes in *app* of type *CONFIGMAP* and *login* of type *SECRET* in "
    "namespace *shop*. Hence reloaded *web* of type *Deployment* in namespace *shop*. "
    "ConfigMap shop/app A changed (env A): rolling out"
)


def document(sink: AlertSink, *alerts: Alert, info: str = "one", dropped: int = 0) -> Any:
    message = format_alerts(sink, alerts, info=info, dropped=dropped)
    assert message.content_type == "application/json"
    return json.loads(message.body)


def card_text(document: Any) -> str:
    """Join the texts of an Adaptive Card."""
    body = document["attachments"][0]["content"]["body"]
    return "\n".join("".join(run["text"] for run in block["inlines"]) for block in body)


def test_raw_alert_is_one_line() -> None:
    """Reloader's sentence without its asterisks, and the reason."""
    assert format_alerts(AlertSink.RAW, [ALERT], info="one") == (PLAIN.encode(), "text/plain")


def test_type_of_each_kind_of_source_is_reloaders() -> None:
    """As in the names of its variables."""
    sources = tuple(
        ObjectKey(kind, "shop", "a") for kind in ("ConfigMap", "Secret", "SecretProviderClass")
    )
    text = format_alerts(AlertSink.RAW, [ALERT._replace(sources=sources)]).body.decode()
    assert "a of type CONFIGMAP and a of type SECRET and a of type SECRETPROVIDERCLASS in" in text


def test_slack_alert_is_one_attachment() -> None:
    """As Reloader sends it, with a text for notifications."""
    assert document(AlertSink.SLACK, ALERT) == {
        "attachments": [
            {
                "text": MARKED,
                "fallback": PLAIN,
                "color": "good",
                "author_name": "Reloader",
                "mrkdwn_in": ["text"],
            }
        ]
    }


def test_gchat_alert_is_a_text() -> None:
    """Google Chat reads the same asterisks as Slack."""
    assert document(AlertSink.GCHAT, ALERT) == {"text": MARKED}


def test_teams_alert_is_an_adaptive_card() -> None:
    """Names are bold runs of text."""
    found = document(AlertSink.TEAMS, ALERT)
    assert found["type"] == "message"
    (attachment,) = found["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    assert attachment["content"]["type"] == "AdaptiveCard"
    assert card_text(found) == PLAIN
    runs = attachment["content"]["body"][0]["inlines"]
    bold = [run["text"] for run in runs if run.get("weight") == "bolder"]
    assert bold == ["app", "CONFIGMAP", "login", "SECRET", "shop", "web", "Deployment", "shop"]


@pytest.mark.parametrize("sink", list(AlertSink))
def test_several_alerts_are_lines_of_one_message(sink: AlertSink) -> None:
    """The last line counts what was not sent before."""
    message = format_alerts(sink, [ALERT, ALERT], dropped=3)
    if sink is AlertSink.RAW:
        text = message.body.decode()
    else:
        found = json.loads(message.body)
        text = card_text(found) if sink is AlertSink.TEAMS else ""
        text = text or found.get("text") or found["attachments"][0]["text"]
    first, second, last = text.split("\n")
    assert first == second
    assert last == "3 earlier alerts were not sent: the receiver is too slow."


HOSTILE = '<!channel> <users/all> <https://evil|x> [x](https://evil) & "\\\n\x1b[31m\u202e {{x}}'


@pytest.mark.parametrize("sink", list(AlertSink))
def test_names_of_variables_are_not_markup(sink: AlertSink) -> None:
    """Names of variables are nearly any text: no mention, link, line feed or escape sequence."""
    alert = ALERT._replace(reason=HOSTILE)
    text = format_alerts(sink, [alert], info=HOSTILE).body.decode()
    if sink is not AlertSink.RAW:
        found = json.loads(text)
        text = (
            card_text(found) if sink is AlertSink.TEAMS else json.dumps(found, ensure_ascii=False)
        )
    assert not {"\n", "\x1b", "\u202e"} & set(text)
    if sink in (AlertSink.SLACK, AlertSink.GCHAT):
        assert not {"<", ">"} & set(text)


def test_teams_card_has_no_block_that_reads_markdown() -> None:
    """A TextBlock would; text runs are shown as they are."""
    found = document(AlertSink.TEAMS, ALERT._replace(reason="[x](https://evil)"))
    content = found["attachments"][0]["content"]
    assert {block["type"] for block in content["body"]} == {"RichTextBlock"}


@pytest.mark.parametrize("sink", list(AlertSink))
def test_longest_alert_fits(sink: AlertSink) -> None:
    """Of names as long as Kubernetes allows; Google Chat takes 4,096 characters, Teams 28 KB."""
    sources = tuple(ObjectKey("Secret", "n" * 63, f"{number}" * 253) for number in range(9))
    alert = Alert(ObjectKey("Deployment", "n" * 63, "w" * 253), sources, "é" * 100_000)
    message = format_alerts(sink, [alert], info="i" * 100_000)
    assert len(message.body.decode()) < 2 * 4096
    if sink is AlertSink.GCHAT:
        assert len(json.loads(message.body)["text"]) < 4096
    if sink is AlertSink.RAW:
        assert len(message.body.decode()) < LONGEST_MESSAGE
    assert " and 4 more" in message.body.decode()

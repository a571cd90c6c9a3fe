"""Whether labels meet a label selector, as Kubernetes reads one."""

from __future__ import annotations

from collections.abc import Mapping

from edgewise.kube.kinds.admission import LabelSelector


def selects(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """All requirements have to be met; a selector without any selects everything."""
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        _meets(each, labels) for each in selector.match_expressions
    )


def _meets(expression: Mapping[str, str | list[str]], labels: Mapping[str, str]) -> bool:
    value = labels.get(str(expression.get("key", "")))
    values = expression.get("values") or []
    match expression.get("operator"):
        case "In":
            return value is not None and value in values
        case "NotIn":  # also what does not have the label at all
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return False  # an operator of the future: nothing is opened by what is not understood

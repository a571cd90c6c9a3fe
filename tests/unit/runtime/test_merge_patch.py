"""The difference of two documents, applied to the first, gives the second."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from edgewise.runtime.merge_patch import difference

# Merge patches cannot set null, so documents have none.
VALUES = st.recursive(
    st.booleans() | st.text(max_size=3) | st.lists(st.text(max_size=2), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4)


def merge(target: Any, patch: Any) -> Any:
    """RFC 7386, word for word."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge(result.get(name), value)
    return result


@given(before=DOCUMENTS, after=DOCUMENTS)
def test_it_leads_from_one_to_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert merge(before, difference(before, after)) == after


@given(document=DOCUMENTS)
def test_nothing_changed_is_an_empty_patch(document: dict[str, Any]) -> None:
    assert difference(document, document) == {}


def test_it_names_only_what_differs() -> None:
    before = {"same": 1, "gone": 2, "deep": {"same": 3, "other": 4}, "list": [1, 2]}
    after = {"same": 1, "deep": {"same": 3, "other": 5}, "list": [1], "new": 6}
    assert difference(before, after) == {
        "gone": None,
        "deep": {"other": 5},
        "list": [1],
        "new": 6,
    }

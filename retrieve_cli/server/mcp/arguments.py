"""Arguments of a tool, checked against its schema (JSON Schema 2020-12) before they are sent.

A schema is text from outside. Regular expressions in it are not run: on an argument they may take forever, and the
server of the tool runs them anyway. References are followed within the schema alone, and not without end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError, printable, shortened

_FAULTS = 3
"""Faults that an error names."""
_LONGEST = 200
"""Characters of a fault."""
_MOST_REFERENCES = 10_000
"""References that are followed: a few lines of schema may ask for more than any machine can follow."""
_REFERENCES = ("$ref", "$dynamicRef")
_PATTERNS = ("pattern", "patternProperties", "unevaluatedProperties", "unevaluatedItems")
"""Keywords that are not checked: they run regular expressions, or depend on those that do."""


def check_arguments(tool: str, schema: Json, arguments: Mapping[str, Json]) -> None:
    """Raise UsageError if arguments do not fit the schema of a tool, which it names with the first faults."""
    from jsonschema.exceptions import ValidationError
    from jsonschema.validators import Draft202012Validator, extend, validator_for
    from referencing import Registry

    if not isinstance(schema, Mapping):
        return
    base = validator_for(schema, default=Draft202012Validator)
    followed = iter(range(_MOST_REFERENCES))

    def reference(check: Callable[..., Iterator[ValidationError]]) -> Callable[..., Iterator[ValidationError]]:
        def checked(*given: Any) -> Iterator[ValidationError]:
            if next(followed, None) is None:
                raise RecursionError
            yield from check(*given) or ()

        return checked

    def additional(validator: Any, value: Json, instance: Json, within: Mapping[str, Json]) -> Any:
        known = "patternProperties" in within
        return () if known else base.VALIDATORS["additionalProperties"](validator, value, instance, within)

    checks = base.VALIDATORS
    keywords: dict[str, Any] = {name: reference(checks[name]) for name in _REFERENCES if name in checks}
    keywords |= dict.fromkeys(_PATTERNS, _unchecked) | {"additionalProperties": additional}
    validator = extend(base, keywords)(schema, registry=Registry())
    try:
        faults = [_fault(error) for error in islice(validator.iter_errors(dict(arguments)), _FAULTS)]
    except Exception as error:  # a faulty schema fails anywhere
        hint = "its server is asked only with arguments that fit: report it to the author of the tool"
        raise UsageError(
            f"the schema of {printable(tool)} cannot be used ({type(error).__name__})", hint=hint
        ) from error
    if faults:
        raise UsageError(f"arguments of {printable(tool)}: {'; '.join(faults)}", hint="describe_tool has its schema")


def _unchecked(*_: Any) -> tuple[()]:
    return ()


def _fault(error: Any) -> str:
    where = ".".join(map(str, error.absolute_path))
    return printable(shortened(f"{where}: {error.message}" if where else error.message, _LONGEST))

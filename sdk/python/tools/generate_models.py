"""Writes `src/shellkeep/models.py`: a frozen dataclass for each schema that an answer of the daemon uses.

Usage: generate_models.py OPENAPI.json >src/shellkeep/models.py
"""

from __future__ import annotations

import json
import keyword
import re
import sys
from typing import Any

#: Schemas whose plain name is used by a handle of this package.
RENAMED = {"Session": "SessionInfo", "Service": "ServiceInfo", "Live": "Health"}
#: Errors are exceptions here.
SKIPPED = {"Problem"}

HEAD = '''"""What the daemon answers. Generated from /openapi.json by tools/generate_models.py; do not edit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

#: The version of the daemon that this package was made for.
API_VERSION = {version}
'''


def class_name(schema: str) -> str:
    return RENAMED.get(schema, schema)


def reference(schema: dict[str, Any]) -> str | None:
    target = schema.get("$ref")
    return target.rsplit("/", 1)[-1] if isinstance(target, str) else None


class Models:
    """The schemas in use, and the code for each."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.schemas: dict[str, dict[str, Any]] = document["components"]["schemas"]
        self.wanted: set[str] = set()
        for path in document["paths"].values():
            for operation in path.values():
                for status, answer in operation.get("responses", {}).items():
                    if status.startswith("2"):
                        for content in answer.get("content", {}).values():
                            self.want(content.get("schema", {}))

    def want(self, schema: Any) -> None:
        """Marks everything that a schema refers to."""
        if isinstance(schema, list):
            for part in schema:
                self.want(part)
        elif isinstance(schema, dict):
            name = reference(schema)
            if name is not None and name not in self.wanted and name not in SKIPPED:
                self.wanted.add(name)
                self.want(self.schemas[name])
            for part in schema.values():
                if isinstance(part, (dict, list)):
                    self.want(part)

    def fields(self, schema: dict[str, Any]) -> tuple[dict[str, dict[str, Any]], set[str]] | None:
        """The fields of an object and which of them are always there; `None` if it is not one."""
        if "allOf" in schema:
            properties: dict[str, dict[str, Any]] = {}
            required: set[str] = set()
            for part in schema["allOf"]:
                name = reference(part)
                found = self.fields(self.schemas[name] if name is not None else part)
                if found is None:
                    return None
                properties |= found[0]
                required |= found[1]
            return properties, required
        if schema.get("type") == "object" and schema.get("properties"):
            return schema["properties"], set(schema.get("required", []))
        return None

    def hint(self, schema: dict[str, Any]) -> str:
        """The type of a value."""
        name = reference(schema)
        if name is not None:
            target = self.schemas[name]
            return class_name(name) if self.fields(target) else self.hint(target)
        if "enum" in schema:
            return "Literal[" + ", ".join(json.dumps(value) for value in schema["enum"]) + "]"
        if "const" in schema:
            return f"Literal[{json.dumps(schema['const'])}]"
        for choice in ("oneOf", "anyOf"):
            if choice in schema:
                parts = [self.hint(part) for part in schema[choice]]
                return "Any" if "Any" in parts else " | ".join(dict.fromkeys(parts))
        kinds = schema.get("type")
        if isinstance(kinds, list):
            return " | ".join(dict.fromkeys(self.hint({**schema, "type": kind}) for kind in kinds))
        if kinds == "array":
            return f"list[{self.hint(schema.get('items', {}))}]"
        if kinds == "object":
            values = schema.get("additionalProperties")
            return f"dict[str, {self.hint(values)}]" if isinstance(values, dict) and values else "dict[str, Any]"
        plain = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
        return plain.get(str(kinds), "Any")

    def decode(self, schema: dict[str, Any], value: str) -> str:
        """The code that makes a value of this type from JSON."""
        name = reference(schema)
        if name is not None:
            target = self.schemas[name]
            return f"{class_name(name)}.from_json({value})" if self.fields(target) else self.decode(target, value)
        if schema.get("type") == "array":
            inner = self.decode(schema.get("items", {}), "x")
            return value if inner == "x" else f"[{inner} for x in {value}]"
        if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
            inner = self.decode(schema["additionalProperties"], "x")
            return value if inner == "x" else f"{{k: {inner} for k, x in {value}.items()}}"
        for choice in ("oneOf", "anyOf"):
            parts = [part for part in schema.get(choice, []) if part.get("type") != "null"]
            if len(parts) == 1:
                return self.decode(parts[0], value)
        return value

    def write_class(self, name: str) -> str:
        schema = self.schemas[name]
        found = self.fields(schema)
        if found is None:
            return ""
        properties, required = found
        lines = ["", "", "@dataclass(frozen=True, slots=True)", f"class {class_name(name)}:"]
        lines += [f'    """{sentence(schema)}"""', ""]
        ordered = sorted(properties, key=lambda key: key not in required)
        for key in ordered:
            lines += self.write_field(key, properties[key], key in required)
        lines += ["", "    @classmethod"]
        lines += [f"    def from_json(cls: type[_{class_name(name)}], data: Mapping[str, Any]) -> _{class_name(name)}:"]
        lines += ['        """Reads an answer; fields that a newer daemon added are left out."""', "        return cls("]
        lines += [f"            {self.write_argument(key, properties[key], key in required)}," for key in ordered]
        lines += ["        )", "", "", f'_{class_name(name)} = TypeVar("_{class_name(name)}", bound={class_name(name)})']
        return "\n".join(lines)

    def write_field(self, key: str, schema: dict[str, Any], required: bool) -> list[str]:
        hint = self.hint(schema)
        lines = [f"    #: {line}" for line in [sentence(schema)] if line]
        if required:
            return [*lines, f"    {python_name(key)}: {hint}"]
        if hint.startswith("list["):
            return [*lines, f"    {python_name(key)}: {hint} = field(default_factory=list)"]
        if hint.startswith("dict["):
            return [*lines, f"    {python_name(key)}: {hint} = field(default_factory=dict)"]
        if "None" not in hint.split(" | ") and hint != "Any":
            hint += " | None"
        return [*lines, f"    {python_name(key)}: {hint} = None"]

    def write_argument(self, key: str, schema: dict[str, Any], required: bool) -> str:
        name = json.dumps(key)
        if required:
            return f"{python_name(key)}={self.decode(schema, f'data[{name}]')}"
        hint = self.hint(schema)
        default = "[]" if hint.startswith("list[") else "{}" if hint.startswith("dict[") else None
        get = f"data.get({name})" if default is None else f"data.get({name}) or {default}"
        decoded = self.decode(schema, "y")
        if decoded == "y":
            return f"{python_name(key)}={get}"
        if default is not None:
            return f"{python_name(key)}={self.decode(schema, f'({get})')}"
        return f"{python_name(key)}=None if (y := data.get({name})) is None else {decoded}"

    def write(self) -> str:
        parts = [HEAD.format(version=json.dumps(self.document["info"]["version"]))]
        parts += [self.write_class(name) for name in sorted(self.wanted)]
        return "".join(part.lstrip("\n") if index == 0 else part + "\n" for index, part in enumerate(parts) if part)


def python_name(key: str) -> str:
    return f"{key}_" if keyword.iskeyword(key) else key


def sentence(schema: dict[str, Any]) -> str:
    """The first sentence of a description, as one line."""
    text = re.sub(r"\s+", " ", schema.get("description", "")).strip().replace("\\", "\\\\").replace('"""', "'''")
    first = re.split(r"(?<=[.;:]) ", text)[0].rstrip(";: ")
    return first if not first or first.endswith(".") else first + "."


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        print(Models(json.load(file)).write(), end="")

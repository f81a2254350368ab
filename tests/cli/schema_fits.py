"""JSON Schema, as far as the schema that muster writes uses the language."""
import re


def fits(schema, value):
    """Whether a value fits a JSON Schema, as far as muster's own uses the language."""
    types = {"object": dict, "array": list, "string": str, "null": type(None), "boolean": bool,
             "number": (int, float), "integer": int}
    known = {"$schema", "title", "description", "type", "enum", "anyOf", "oneOf", "pattern",
             "minimum", "maximum", "properties", "additionalProperties", "minProperties",
             "required", "items", "minItems", "maxItems", "uniqueItems"}
    if set(schema) - known:
        raise ValueError(f"not understood: {set(schema) - known}")
    kinds = schema.get("type", list(types))
    kinds = [kinds] if isinstance(kinds, str) else kinds
    good = any(isinstance(value, types[kind]) and not (isinstance(value, bool) and
               kind in ("integer", "number")) for kind in kinds)
    good &= "enum" not in schema or any(type(one) is type(value) and one == value
                                        for one in schema["enum"])
    good &= "anyOf" not in schema or any(fits(one, value) for one in schema["anyOf"])
    good &= "oneOf" not in schema or sum(fits(one, value) for one in schema["oneOf"]) == 1
    if isinstance(value, str):
        good &= re.search(schema.get("pattern", ""), value) is not None
    elif isinstance(value, int) and not isinstance(value, bool):
        good &= schema.get("minimum", value) <= value <= schema.get("maximum", value)
    elif isinstance(value, list):
        good &= schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value))
        good &= all(fits(schema.get("items", {}), one) for one in value)
        good &= not schema.get("uniqueItems") or len({*map(str, value)}) == len(value)
    elif isinstance(value, dict):
        properties = schema.get("properties", {})
        good &= schema.get("minProperties", 0) <= len(value)
        good &= set(schema.get("required", ())) <= set(value)
        good &= schema.get("additionalProperties", True) or set(value) <= set(properties)
        good &= all(fits(properties.get(key, {}), one) for key, one in value.items())
    return bool(good)

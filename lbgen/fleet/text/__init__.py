"""From text to a document: YAML that is sound, each value with its place."""

"""Commands about fleet files: made, imported, checked, shown."""

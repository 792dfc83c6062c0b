"""Routes, and the answers of Envoy's own."""

"""Words of HAProxy's language: text quoted, numbers and names spelled, rules gathered."""

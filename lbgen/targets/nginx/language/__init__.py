"""Words of NGINX's language: text quoted, numbers and names spelled."""

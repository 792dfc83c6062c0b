"""lbgen: NGINX and HAProxy configuration for fleets of LLM inference servers."""

__version__ = "0.1.0"

"""Tests that run the real NGINX and HAProxy, in containers of several Debian generations."""

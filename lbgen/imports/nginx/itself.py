"""Directives that a fleet has no key for because lbgen decides them: the same, or better for LLM traffic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.imports.ledger import reasons

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.imports.nginx.reading import Reading
    from lbgen.readers.nginx import Directive

SAME: Mapping[str, frozenset[str]] = {
    "proxy_buffering": frozenset({"off"}),
    "proxy_cache": frozenset({"off"}),
    "proxy_http_version": frozenset({"1.1"}),
    "proxy_ssl_server_name": frozenset({"on"}),
    "tcp_nodelay": frozenset({"on"}),
    "server_tokens": frozenset({"off"}),
    "chunked_transfer_encoding": frozenset({"on"}),
    "gzip": frozenset({"off"}),
    "worker_processes": frozenset({"auto"}),
    "proxy_intercept_errors": frozenset({"off"}),
    "proxy_pass_request_headers": frozenset({"on"}),
    "proxy_pass_request_body": frozenset({"on"}),
    "proxy_ignore_client_abort": frozenset({"off"}),
    "uninitialized_variable_warn": frozenset({"off"}),
    "reset_timedout_connection": frozenset({"on"}),
    "merge_slashes": frozenset({"on"}),
    "underscores_in_headers": frozenset({"on"}),
}
"""By directive, the values with which it says what lbgen renders anyway, or what is NGINX's default."""

BETTER = reasons(
    """
    tokens are passed on as they come: proxy_buffering proxy_cache_bypass proxy_no_cache postpone_output
        chunked_transfer_encoding
    compression would hold tokens back: gzip gzip_types gzip_proxied gzip_vary gzip_comp_level
        gzip_min_length
        gzip_buffers gzip_http_version gzip_disable
    it is for files, and none are served: sendfile tcp_nopush types default_type index open_file_cache
        open_file_cache_valid open_file_cache_errors open_file_cache_min_uses aio directio charset etag
        log_not_found autoindex sendfile_max_chunk
    lbgen sizes it: proxy_buffers proxy_busy_buffers_size proxy_max_temp_file_size client_body_buffer_size
        client_header_buffer_size client_body_in_single_buffer proxy_headers_hash_max_size
        proxy_headers_hash_bucket_size map_hash_max_size map_hash_bucket_size types_hash_max_size
        types_hash_bucket_size server_names_hash_max_size server_names_hash_bucket_size
        variables_hash_max_size
        variables_hash_bucket_size worker_rlimit_nofile proxy_temp_file_write_size client_body_temp_path
        proxy_temp_path grpc_buffer_size client_max_body_size output_buffers
    errors are answered in OpenAI's form: error_page proxy_intercept_errors recursive_error_pages
    the TLS profile decides it: ssl_ciphers ssl_prefer_server_ciphers ssl_session_cache ssl_session_timeout
        ssl_session_tickets ssl_dhparam ssl_ecdh_curve ssl_stapling ssl_stapling_verify ssl_buffer_size
        ssl_protocols ssl_conf_command ssl_early_data
    lbgen or the program decides it: use multi_accept accept_mutex daemon master_process
        worker_cpu_affinity
        worker_priority server_tokens log_format limit_req_status limit_conn_status tcp_nodelay
        server_name_in_redirect port_in_redirect absolute_redirect proxy_redirect rewrite_log
        proxy_socket_keepalive reset_timedout_connection proxy_ssl_session_reuse worker_processes
    servers are spoken to in HTTP/1.1: proxy_http_version
    'keepalive' of the pool decides it: keepalive_time
    headers with '_' reach servers, as on HAProxy: underscores_in_headers
    """
)
"""What else is decided, and how."""

OUTSIDE = reasons(
    """
    files are not served: root alias try_files
    servers speak HTTP or gRPC: fastcgi_pass uwsgi_pass scgi_pass memcached_pass
    nothing is cached: proxy_cache proxy_cache_path proxy_cache_valid proxy_cache_key
    requests and answers pass as they are: sub_filter proxy_set_body proxy_method mirror
    paths can only be changed by removing or adding a prefix: rewrite
    'metrics' is an address of its own: stub_status
    only the program itself leads there: internal
    NGINX writes its PID file at its default path from now on, for `--pid` and systemd's PIDFile: pid
    a condition has a key only as a route's, or where it asks for a key: if
    a map has a key only where it knows keys of clients, or chooses a pool by host or header: map
    TCP proxies have no key: stream
    mail has no key: mail
    scripts have no key: perl perl_modules perl_set
    """
)
"""What has no key, and why."""


def settle(reading: Reading, directive: Directive) -> None:
    """Note the fate of a directive that no key came from."""
    if not reading.ledger.is_open(directive.location):
        return
    if " ".join(directive.args) in SAME.get(directive.name, ()):
        reading.ledger.carried(directive.location)
    elif directive.name in BETTER:
        reading.ledger.better(directive.location, BETTER[directive.name])
    elif "_by_lua" in directive.name or directive.name.startswith(("lua_", "js_")):
        reading.ledger.left(directive.location, "scripts have no key")
    else:
        reading.ledger.left(directive.location, OUTSIDE.get(directive.name, "lbgen has no key for it"))

"""What watches a fleet: Prometheus and Grafana."""

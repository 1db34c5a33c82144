"""Serves everything over HTTP: the page of metrics, pages for people, the routes, who may write, limits and sockets."""

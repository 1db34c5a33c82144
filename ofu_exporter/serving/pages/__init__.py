"""The pages that people look at: the node and its jobs, drawn on the server, without any file from elsewhere."""

"""What the Kubernetes scheduler is made of: the wires to kubelet and the API server, and the words of both."""

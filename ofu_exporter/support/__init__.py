"""Small tools that know nothing of GPUs, jobs or metrics; any could be a package of its own."""

"""One module per dashboard; its file name is its registration, and `DASHBOARD` what it makes."""

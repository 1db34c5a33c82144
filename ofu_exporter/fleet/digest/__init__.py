"""Tells every user, or account, of their own jobs: as files, by mail, or to a webhook."""

"""Makes the mail of a digest. Names chosen by users get into no header, except as escaped text of the subject."""

from __future__ import annotations

import hashlib
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate

from ofu_exporter.fleet.digest.page import page
from ofu_exporter.fleet.digest.result import Digest
from ofu_exporter.fleet.digest.text import subject, text


def message(digest: Digest, sender: str, to: str, most_jobs: int) -> EmailMessage:
    """Text, and the same as HTML. Equal digests have one Message-ID, so that a program can tell a copy."""
    mail = EmailMessage(policy=SMTP)
    mail["From"] = sender
    mail["To"] = to
    mail["Subject"] = _undecoded(subject(digest))
    mail["Date"] = formatdate(localtime=False, usegmt=True)
    mail["Message-ID"] = f"<{_told(digest, to)}@{sender.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = (
        "auto-generated"  # RFC 3834: no automatic replies, such as out-of-office mails
    )
    mail.set_content(_utf8(text(digest, most_jobs)) + "\n", cte="quoted-printable")
    mail.add_alternative(_utf8(page(digest, most_jobs)), subtype="html", cte="quoted-printable")
    return mail


def _undecoded(header: str) -> str:
    """A header without the beginning of an encoded word (RFC 2047).

    The email package decodes encoded words when a header is set, and one could contain a line break and another
    header.
    """
    return header.replace("=?", "= ?")


def _utf8(content: str) -> str:
    """The text without half surrogate pairs, which a mail cannot contain."""
    return content.encode(errors="backslashreplace").decode()


def _told(digest: Digest, to: str) -> str:
    key = "\0".join((digest.by, digest.name, digest.time.start, digest.time.end, to))
    return hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()[:40]

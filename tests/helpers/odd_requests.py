"""Requests that two programs could read differently, each with a name; and a plain one that follows them."""

from __future__ import annotations

_POST = b"POST /v1/mfu HTTP/1.1\r\nHost: x\r\n"
_GET = b"GET /healthz HTTP/1.1\r\n"
_CHUNKED = _POST + b"Transfer-Encoding: chunked\r\n\r\n"
PLAIN = b"GET /last HTTP/1.1\r\nHost: x\r\n\r\n"
"""What is sent after each: whoever finds another end of an odd request finds another request here."""
HIDDEN = b"GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n"
"""A request in a body."""


def _fields(*lines: bytes, body: bytes = b"") -> bytes:
    """A request that writes, with these headers."""
    return _POST + b"".join(line + b"\r\n" for line in lines) + b"\r\n" + body


def _chunks(*pieces: bytes) -> bytes:
    return _CHUNKED + b"".join(pieces)


LENGTHS = {
    "length": _fields(b"Content-Length: 5", body=b"12345"),
    "no length": _fields(),
    "a request in the body": _fields(b"Content-Length: %d" % len(HIDDEN), body=HIDDEN),
    "length of 0": _fields(b"Content-Length: 0"),
    "length with zeros before it": _fields(b"Content-Length: 0005", body=b"12345"),
    "length with a plus": _fields(b"Content-Length: +5", body=b"12345"),
    "length with a minus": _fields(b"Content-Length: -5", body=b"12345"),
    "length with spaces": _fields(b"Content-Length:   5  ", body=b"12345"),
    "length with a tab": _fields(b"Content-Length:\t5", body=b"12345"),
    "length with a space inside": _fields(b"Content-Length: 1 5", body=b"12345"),
    "length in hexadecimal": _fields(b"Content-Length: 0x5", body=b"12345"),
    "length with an underscore": _fields(b"Content-Length: 1_0", body=b"1234567890"),
    "length with a decimal point": _fields(b"Content-Length: 5.0", body=b"12345"),
    "length in other digits": _fields("Content-Length: \u0665".encode(), body=b"12345"),
    "empty length": _fields(b"Content-Length: ", body=b"12345"),
    "length above 64 bits": _fields(b"Content-Length: 18446744073709551621", body=b"12345"),
    "length of 21 digits": _fields(b"Content-Length: 000000000000000000005", body=b"12345"),
    "two lengths": _fields(b"Content-Length: 5", b"Content-Length: 6", body=b"12345"),
    "one length twice": _fields(b"Content-Length: 5", b"Content-Length: 5", body=b"12345"),
    "a list of one length": _fields(b"Content-Length: 5, 5", body=b"12345"),
    "a list of two lengths": _fields(b"Content-Length: 5, 6", body=b"12345"),
    "length and a comma": _fields(b"Content-Length: 5,", body=b"12345"),
    "length in capitals": _fields(b"CONTENT-LENGTH: 5", body=b"12345"),
    "length with an underscored name": _fields(b"Content_Length: 5", body=b""),
    "a reader's length": b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n12345",
    "a HEAD's length": b"HEAD /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n12345",
}
_BOTH = (b"Content-Length: 5", b"Transfer-Encoding: chunked")
TRANSFERS = {
    "chunked": _chunks(b"5\r\n12345\r\n", b"0\r\n\r\n"),
    "length and chunked": _fields(*_BOTH, body=b"0\r\n\r\n"),
    "chunked and length": _fields(*reversed(_BOTH), body=b"0\r\n\r\n"),
    "length hides what chunks show": _fields(
        b"Content-Length: 4",
        b"Transfer-Encoding: chunked",
        body=b"2b\r\n" + HIDDEN + b"\r\n0\r\n\r\n",
    ),
    "chunked in capitals": _fields(b"Transfer-Encoding: CHUNKED", body=b"0\r\n\r\n"),
    "chunked twice in a list": _fields(b"Transfer-Encoding: chunked, chunked", body=b"0\r\n\r\n"),
    "chunked twice": _fields(
        b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n"
    ),
    "identity": _fields(b"Transfer-Encoding: identity", body=b"0\r\n\r\n"),
    "identity and length": _fields(
        b"Transfer-Encoding: identity", b"Content-Length: 5", body=b"12345"
    ),
    "identity, then chunked": _fields(b"Transfer-Encoding: identity, chunked", body=b"0\r\n\r\n"),
    "chunked, then identity": _fields(b"Transfer-Encoding: chunked, identity", body=b"0\r\n\r\n"),
    "gzip, then chunked": _fields(b"Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n"),
    "chunked after a tab": _fields(b"Transfer-Encoding:\tchunked", body=b"0\r\n\r\n"),
    "chunked before a tab": _fields(b"Transfer-Encoding: chunked\t", body=b"0\r\n\r\n"),
    "chunked after a vertical tab": _fields(b"Transfer-Encoding: \x0bchunked", body=b"0\r\n\r\n"),
    "chunked in quotes": _fields(b'Transfer-Encoding: "chunked"', body=b"0\r\n\r\n"),
    "xchunked": _fields(b"Transfer-Encoding: xchunked", body=b"0\r\n\r\n"),
    "chunked with a parameter": _fields(b"Transfer-Encoding: chunked;a=b", body=b"0\r\n\r\n"),
    "empty transfer": _fields(b"Transfer-Encoding:", b"Content-Length: 5", body=b"12345"),
    "transfer with a space in its name": _fields(b"Transfer-Encoding : chunked", body=b"0\r\n\r\n"),
    "transfer with a space before it": _fields(b" Transfer-Encoding: chunked", body=b"0\r\n\r\n"),
    "transfer with an underscore": _fields(b"Transfer_Encoding: chunked", body=b""),
    "folded transfer": _fields(b"Transfer-Encoding:", b" chunked", body=b"0\r\n\r\n"),
    "TE": _fields(b"TE: trailers", b"Content-Length: 5", body=b"12345"),
    "chunked in HTTP/1.0": b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked and kept in HTTP/1.0": (
        b"POST / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    ),
}
CHUNKS = {
    "size with zeros before it": _chunks(b"0000005\r\n12345\r\n0\r\n\r\n"),
    "size of 17 digits": _chunks(b"00000000000000005\r\n12345\r\n0\r\n\r\n"),
    "size of 21 digits": _chunks(b"000000000000000000005\r\n12345\r\n0\r\n\r\n"),
    "size above 64 bits": _chunks(b"10000000000000005\r\n12345\r\n0\r\n\r\n"),
    "size with 0x": _chunks(b"0x5\r\n12345\r\n0\r\n\r\n"),
    "size with a plus": _chunks(b"+5\r\n12345\r\n0\r\n\r\n"),
    "size with a minus": _chunks(b"-5\r\n12345\r\n0\r\n\r\n"),
    "size after a space": _chunks(b" 5\r\n12345\r\n0\r\n\r\n"),
    "size before a space": _chunks(b"5 \r\n12345\r\n0\r\n\r\n"),
    "size before a tab": _chunks(b"5\t\r\n12345\r\n0\r\n\r\n"),
    "no size": _chunks(b"\r\n12345\r\n0\r\n\r\n"),
    "extension": _chunks(b"5;a=b\r\n12345\r\n0\r\n\r\n"),
    "extension after a space": _chunks(b"5 ;a=b\r\n12345\r\n0\r\n\r\n"),
    "extension in quotes": _chunks(b'5;a="b\\"c"\r\n12345\r\n0\r\n\r\n'),
    "extension without a name": _chunks(b"5;\r\n12345\r\n0\r\n\r\n"),
    "extension with a line feed": _chunks(b"5;a\nb\r\n12345\r\n0\r\n\r\n"),
    "extension with a carriage return": _chunks(b"5;a\rb\r\n12345\r\n0\r\n\r\n"),
    "extension with NUL": _chunks(b"5;a\x00b\r\n12345\r\n0\r\n\r\n"),
    "long extension": _chunks(b"5;" + b"a" * 9000 + b"\r\n12345\r\n0\r\n\r\n"),
    "endless extension": _chunks(b"5;" + b"a" * 40_000 + b"\r\n12345\r\n0\r\n\r\n"),
    "bare line feed after the size": _chunks(b"5\n12345\r\n0\r\n\r\n"),
    "bare line feed after the chunk": _chunks(b"5\r\n12345\n0\r\n\r\n"),
    "bare carriage return after the size": _chunks(b"5\r12345\r\n0\r\n\r\n"),
    "nothing after the chunk": _chunks(b"5\r\n123450\r\n\r\n"),
    "more than the size": _chunks(b"5\r\n1234567\r\n0\r\n\r\n"),
    "several ends": _chunks(b"000\r\n\r\n"),
    "end with a bare line feed": _chunks(b"0\n\n"),
    "end without its empty line": _chunks(b"0\r\n"),
    "trailer": _chunks(b"0\r\nx-sum: 1\r\n\r\n"),
    "length in a trailer": _chunks(b"0\r\nContent-Length: 50\r\n\r\n"),
    "transfer in a trailer": _chunks(b"0\r\nTransfer-Encoding: chunked\r\n\r\n"),
    "trailer with a space in its name": _chunks(b"0\r\nx : 1\r\n\r\n"),
    "trailer with a bare line feed": _chunks(b"0\r\nx: 1\n\r\n"),
    "long trailer": _chunks(b"0\r\nx: " + b"a" * 9000 + b"\r\n\r\n"),
    "endless trailer": _chunks(b"0\r\nx: " + b"a" * 40_000 + b"\r\n\r\n"),
    "a request in a chunk": _chunks(b"%x\r\n" % len(HIDDEN) + HIDDEN + b"\r\n0\r\n\r\n"),
}
HEADS = {
    "plain": _GET + b"Host: x\r\n\r\n",
    "empty line before it": b"\r\n" + _GET + b"Host: x\r\n\r\n",
    "bare line feed before it": b"\n" + _GET + b"Host: x\r\n\r\n",
    "bare line feeds": b"GET /healthz HTTP/1.1\nHost: x\n\n",
    "one bare line feed": _GET + b"Host: x\nA: b\r\n\r\n",
    "bare line feed at the end": _GET + b"Host: x\r\n\n",
    "bare carriage return": _GET + b"Host: x\rA: b\r\n\r\n",
    "carriage return in a value": _GET + b"Host: x\r\nA: b\rc\r\n\r\n",
    "two carriage returns": _GET + b"Host: x\r\r\n\r\n",
    "folded": _GET + b"Host: x\r\nA: b\r\n c\r\n\r\n",
    "folded with a tab": _GET + b"Host: x\r\nA: b\r\n\tc\r\n\r\n",
    "folded first": _GET + b" a: b\r\nHost: x\r\n\r\n",
    "NUL in a name": _GET + b"Host: x\r\na\x00b: c\r\n\r\n",
    "NUL in a value": _GET + b"Host: x\r\na: b\x00c\r\n\r\n",
    "NUL in the target": b"GET /a\x00b HTTP/1.1\r\nHost: x\r\n\r\n",
    "control in a value": _GET + b"Host: x\r\na: b\x01c\r\n\r\n",
    "DEL in a value": _GET + b"Host: x\r\na: b\x7fc\r\n\r\n",
    "Latin-1 in a value": _GET + b"Host: x\r\na: b\xe9c\r\n\r\n",
    "Latin-1 in a name": _GET + b"Host: x\r\na\xe9: b\r\n\r\n",
    "Latin-1 in the target": b"GET /\xe9 HTTP/1.1\r\nHost: x\r\n\r\n",
    "space in a name": _GET + b"Host: x\r\na b: c\r\n\r\n",
    "space after a name": _GET + b"Host: x\r\na : c\r\n\r\n",
    "tab after a name": _GET + b"Host: x\r\na\t: c\r\n\r\n",
    "no name": _GET + b"Host: x\r\n: c\r\n\r\n",
    "no colon": _GET + b"Host: x\r\nabc\r\n\r\n",
    "no value": _GET + b"Host: x\r\na:\r\n\r\n",
    "spaces before a value": _GET + b"Host: x\r\na:   b\r\n\r\n",
    "spaces after a value": _GET + b"Host: x\r\na: b  \r\n\r\n",
    "spaces for a value": _GET + b"Host: x\r\na:    \r\n\r\n",
    "no space before a value": _GET + b"Host:x\r\na:b\r\n\r\n",
    "braces in a name": _GET + b"Host: x\r\n{a}: b\r\n\r\n",
    "one name twice": _GET + b"Host: x\r\na: b\r\nA: c\r\n\r\n",
    "no host": _GET + b"a: b\r\n\r\n",
    "two hosts": _GET + b"Host: x\r\nHost: y\r\n\r\n",
    "no header": b"GET /healthz HTTP/1.1\r\n\r\n",
    "HTTP/0.9": b"GET /healthz\r\n\r\n",
    "HTTP/1.0": b"GET /healthz HTTP/1.0\r\n\r\n",
    "HTTP/1.0, kept": b"GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "HTTP/1.2": b"GET /healthz HTTP/1.2\r\nHost: x\r\n\r\n",
    "HTTP/2.0": b"GET /healthz HTTP/2.0\r\nHost: x\r\n\r\n",
    "HTTP/1.10": b"GET /healthz HTTP/1.10\r\nHost: x\r\n\r\n",
    "HTTP/1x1": b"GET /healthz HTTP/1x1\r\nHost: x\r\n\r\n",
    "http/1.1": b"GET /healthz http/1.1\r\nHost: x\r\n\r\n",
    "preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "two spaces": b"GET  /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "tab in the line": b"GET\t/healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "space at the end of the line": b"GET /healthz HTTP/1.1 \r\nHost: x\r\n\r\n",
    "space before it": b" GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "space in the target": b"GET /health z HTTP/1.1\r\nHost: x\r\n\r\n",
    "no target": b"GET HTTP/1.1\r\nHost: x\r\n\r\n",
    "method in small letters": b"get /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "unknown method": b"BREW /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
    "PUT": b"PUT /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n12345",
    "OPTIONS of all": b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
    "absolute target": b"GET http://y/healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "target without a slash": b"GET healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "fragment": b"GET /healthz#a HTTP/1.1\r\nHost: x\r\n\r\n",
    "query": b"GET /healthz?a=b%20c HTTP/1.1\r\nHost: x\r\n\r\n",
    "two slashes": b"GET //y/healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "backslash": b"GET /\\y HTTP/1.1\r\nHost: x\r\n\r\n",
    "angle brackets": b"GET /<a>\"'` HTTP/1.1\r\nHost: x\r\n\r\n",
    "percent signs": b"GET /%00%ff%zz% HTTP/1.1\r\nHost: x\r\n\r\n",
    "CONNECT": b"CONNECT y:22 HTTP/1.1\r\nHost: x\r\n\r\n",
    "Upgrade": _GET + b"Host: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    "Upgrade without its Connection": _GET + b"Host: x\r\nUpgrade: h2c\r\n\r\n",
    "Upgrade with a body": _fields(
        b"Connection: Upgrade", b"Upgrade: h2c", b"Content-Length: 5", body=b"12345"
    ),
    "Expect": _fields(b"Expect: 100-continue", b"Content-Length: 5", body=b"12345"),
    "another Expect": _fields(b"Expect: 200-ok", b"Content-Length: 5", body=b"12345"),
    "close": _GET + b"Host: x\r\nConnection: close\r\n\r\n",
    "close in capitals": _GET + b"Host: x\r\nConnection: CLOSE\r\n\r\n",
    "close in a list": _GET + b"Host: x\r\nConnection: keep-alive, close\r\n\r\n",
    "keep-alive": _GET + b"Host: x\r\nConnection: Keep-Alive\r\n\r\n",
    "keep-alive and close": _GET
    + b"Host: x\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n",
    "Connection names the length": _fields(
        b"Connection: content-length", b"Content-Length: 5", body=b"12345"
    ),
    "long target": b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "long value": _GET + b"Host: x\r\na: " + b"b" * 9000 + b"\r\n\r\n",
    "many headers": _GET
    + b"Host: x\r\n"
    + b"".join(b"a%d: b\r\n" % i for i in range(900))
    + b"\r\n",
    "endless target": b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "endless value": _GET + b"Host: x\r\na: " + b"b" * 70_000 + b"\r\n\r\n",
    "endless headers": _GET + b"Host: x\r\n" + b"a: b\r\n" * 20_000 + b"\r\n",
    "three at once": 3 * (_GET + b"Host: x\r\n\r\n"),
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 100,
    "NULs": b"\x00" * 64,
}
ODD_REQUESTS = {**LENGTHS, **TRANSFERS, **CHUNKS, **HEADS}

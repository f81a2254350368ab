"""Reads the columns of a flat parquet file with the standard library: compact thrift, snappy, plain
and dictionary pages of version 1. As much as the traces of StragglerAnalysis need, and no more."""

import struct

STOP, TRUE, FALSE, LIST, STRUCT, BINARY, DOUBLE = 0, 1, 2, 9, 12, 8, 7
BOOLEAN_T, INT32_T, INT64_T, FLOAT_T, DOUBLE_T, BYTES_T = 0, 1, 2, 4, 5, 6
PLAIN, PLAIN_DICTIONARY, RLE, RLE_DICTIONARY = 0, 2, 3, 8
DATA_PAGE, DICTIONARY_PAGE = 0, 2


class Thrift:
    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def varint(self):
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def integer(self):
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    def value(self, kind):
        if kind in (TRUE, FALSE):
            return kind == TRUE
        if kind == BINARY:
            n = self.varint()
            self.at += n
            return self.data[self.at - n:self.at]
        if kind == DOUBLE:
            self.at += 8
            return struct.unpack_from("<d", self.data, self.at - 8)[0]
        if kind == LIST:
            head = self.data[self.at]
            self.at += 1
            n = head >> 4 if head >> 4 < 15 else self.varint()
            return [self.value(head & 15) for _ in range(n)]
        if kind == STRUCT:
            return self.fields()
        if kind == 3:
            self.at += 1
            return self.data[self.at - 1]
        return self.integer()

    def fields(self):
        """{field number: value} of a struct."""
        found, number = {}, 0
        while True:
            head = self.data[self.at]
            self.at += 1
            if head == STOP:
                return found
            number = number + (head >> 4) if head >> 4 else self.integer()
            found[number] = self.value(head & 15)


def snappy(data):
    at, out = 0, bytearray()
    while data[at] > 127:
        at += 1
    at += 1
    while at < len(data):
        tag = data[at]
        at += 1
        kind = tag & 3
        if kind == 0:
            n = tag >> 2
            if n > 59:
                more = n - 59
                n = int.from_bytes(data[at:at + more], "little")
                at += more
            out += data[at:at + n + 1]
            at += n + 1
            continue
        if kind == 1:
            n, back = (tag >> 2 & 7) + 4, tag >> 5 << 8 | data[at]
            at += 1
        else:
            size = 2 if kind == 2 else 4
            n, back = (tag >> 2) + 1, int.from_bytes(data[at:at + size], "little")
            at += size
        while n > 0:
            piece = out[-back:][:n] if back >= n else out[-back:]
            out += piece
            n -= len(piece)
    return bytes(out)


def hybrid(data, at, end, bits, n):
    """n numbers of `bits` bits, in runs or packed by eights."""
    found, size = [], (bits + 7) // 8
    while at < end and len(found) < n:
        head = Thrift(data, at)
        run = head.varint()
        at = head.at
        if run & 1:
            packed = int.from_bytes(data[at:at + (run >> 1) * bits], "little")
            mask = (1 << bits) - 1
            for i in range((run >> 1) * 8):
                found.append(packed >> i * bits & mask)
            at += (run >> 1) * bits
        else:
            found += [int.from_bytes(data[at:at + size], "little")] * (run >> 1)
            at += size
    return found[:n]


def plain(data, kind, n):
    if kind == BYTES_T:
        found, at = [], 0
        for _ in range(n):
            size = int.from_bytes(data[at:at + 4], "little")
            found.append(data[at + 4:at + 4 + size].decode())
            at += 4 + size
        return found
    letter = {INT32_T: "i", INT64_T: "q", FLOAT_T: "f", DOUBLE_T: "d"}[kind]
    return list(struct.unpack_from(f"<{n}{letter}", data))


def data_page(page, header, kind, optional, words):
    n, encoding = header[5][1], header[5][2]
    at, present = 0, [1] * n
    if optional:
        size = int.from_bytes(page[:4], "little")
        present = hybrid(page, 4, 4 + size, 1, n)
        at = 4 + size
    there = sum(present)
    if encoding == PLAIN:
        values = plain(page[at:], kind, there)
    else:
        assert encoding in (PLAIN_DICTIONARY, RLE_DICTIONARY), encoding
        values = [words[i] for i in hybrid(page, at + 1, len(page), page[at], there)]
    values = iter(values)
    return [next(values) if here else None for here in present]


def chunk(data, meta, optional):
    kind, codec, n = meta[1], meta[4], meta[5]
    at = meta.get(11, meta[9])
    values, words = [], None
    while len(values) < n:
        reader = Thrift(data, at)
        header = reader.fields()
        page = data[reader.at:reader.at + header[3]]
        at = reader.at + header[3]
        page = snappy(page) if codec == 1 else page
        if header[1] == DICTIONARY_PAGE:
            words = plain(page, kind, header[7][1])
        else:
            assert header[1] == DATA_PAGE, header[1]
            values += data_page(page, header, kind, optional, words)
    return values


def read(path):
    """{column: [value]}."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:4] == data[-4:] == b"PAR1", path
    size = int.from_bytes(data[-8:-4], "little")
    footer = Thrift(data, len(data) - 8 - size).fields()
    optional = {leaf[4].decode(): leaf.get(3) == 1 for leaf in footer[2][1:]}
    columns = {name: [] for name in optional}
    for group in footer[4]:
        for column in group[1]:
            meta = column[3]
            name = meta[3][-1].decode()
            columns[name] += chunk(data, meta, optional[name])
    return columns

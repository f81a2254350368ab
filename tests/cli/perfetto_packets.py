"""A Perfetto trace's packets, one by one, as Perfetto reads them: those that hold deflated packets are inflated."""
import zlib

PACKET, COMPRESSED = b"\x0a", b"\x92\x03"  # tags of Trace.packet = 1 and TracePacket.compressed_packets = 50
MOST_COMPRESSED = 512 * 1024  # Perfetto's bound for such a packet


def varint(data, at):
    value, shift = 0, 0
    while True:
        value, shift, at = value | (data[at] & 0x7f) << shift, shift + 7, at + 1
        if not data[at - 1] & 0x80:
            return value, at


def packets(data):
    """Each packet's bytes, without what tells where it ends."""
    at = 0
    while at < len(data):
        assert data[at:at + 1] == PACKET, "a packet"
        size, at = varint(data, at + 1)
        packet, at = data[at:at + size], at + size
        if packet.startswith(COMPRESSED):
            inside, begin = varint(packet, len(COMPRESSED))
            assert begin + inside == len(packet) <= MOST_COMPRESSED, "nothing but the deflated packets"
            yield from packets(zlib.decompress(packet[begin:]))
        else:
            yield packet


def flat(data):
    """The same trace without deflated packets."""
    out = bytearray()
    for packet in packets(data):
        size = len(packet)
        out += PACKET
        while size >= 0x80:
            out.append(size & 0x7f | 0x80)
            size >>= 7
        out.append(size)
        out += packet
    return bytes(out)

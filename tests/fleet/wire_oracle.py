"""A second reading of the wire format, and a second way to what ranks cost each other: written from
plugin/fleet/wire.h alone, in another language, so that a mistake of the join is not made twice."""

import socket
import threading

TIMED, SAME, JUMP, FAR = 1, 2, 4, 8
GRAPH, UNSCORED, INCOMPLETE = 1, 8, 16
CALLS, CLASSES = 16, 256


class Bytes:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        assert self.at + n <= len(self.data), "it ends too early"
        self.at += n
        return self.data[self.at - n:self.at]

    def byte(self):
        return self.take(1)[0]

    def number(self):
        value = shift = 0
        while True:
            one = self.byte()
            value |= (one & 127) << shift
            shift += 7
            if one < 128:
                return value

    def signed(self):
        folded = self.number()
        return folded >> 1 ^ -(folded & 1)

    def fixed(self):
        return int.from_bytes(self.take(8), "little")

    def text(self):
        return self.take(self.number()).decode()

    def time(self):
        code = int.from_bytes(self.take(2), "little")
        octave, part = (code & 0x7fff) >> 10, code & 1023
        size = (part + 1024) << (octave - 1) if octave else part
        return -size if code & 0x8000 else size


class Job:
    """What messages of one job tell: processes with their communicators and timed operations."""

    def __init__(self):
        self.process, self.sequence, self.late = {}, {}, {}

    def take(self, data):
        read = Bytes(data)
        assert read.take(4) == b"mflt" and read.number() == 4
        instance, sequence = read.fixed(), read.number()
        read.number(), read.number()
        if read.byte():
            read.fixed(), read.number(), read.text(), read.text(), read.text()
        if sequence <= self.sequence.get(instance, -1):
            return
        self.sequence[instance] = sequence
        head = read.number()
        for _ in range(head >> 1):
            self.take_process(read, instance)
        if head & 1:
            self.late[instance] = [self.take_finding(read) for _ in range(read.number())]
        assert read.at == len(data), "more behind its end"

    @staticmethod
    def take_finding(read):
        """The ranks that an agent finds late."""
        read.take(4), read.fixed(), read.signed(), read.take(2), read.number(), read.number(), read.signed()
        for _ in range(7):
            read.number()
        ranks = [read.signed() for _ in range(read.number())]
        for _ in range(read.number()):
            read.signed()
        read.text()
        for _ in range(2):
            for _ in range(read.number()):
                read.text()
        read.text()
        return ranks

    def take_process(self, read, instance):
        key = instance, read.number(), read.number()
        process = self.process.setdefault(key, {"rank": None, "comm": {}, "class": {}, "op": []})
        head = read.byte()
        read.number(), read.number()
        if head & 1:
            read.number(), read.number()
            process["rank"] = read.signed()
            read.signed(), read.signed()
            for _ in range(4):
                read.number()
            read.byte(), read.byte(), read.text()
        for _ in range(read.number()):
            self.take_comm(read, process)
        if head & 2:
            for _ in range(read.number()):
                self.pass_slot(read)
        for _ in range(read.number()):
            read.number(), read.signed()
            for _ in range(7):
                read.number()
        for _ in range(read.number()):
            self.take_class(read, process)
        self.take_ops(read, process)

    @staticmethod
    def take_comm(read, process):
        head = read.number()
        calls = read.number()
        read.number(), read.signed(), read.signed(), read.number(), read.number(), read.number()
        if head & 1:
            comm = process["comm"].setdefault(head >> 2, {})
            comm["id"], comm["rank"], comm["nranks"] = read.fixed(), read.signed(), read.number()
            read.number(), read.signed(), read.text(), read.text(), read.text(), read.number(), read.number()
        if head & 2:
            read.fixed(), read.number()
            for _ in range(min(calls, CALLS)):
                read.signed(), read.byte(), read.byte(), read.signed(), read.number()

    @staticmethod
    def pass_slot(read):
        for _ in range(4):
            read.number()
        read.signed(), read.number(), read.take(3)
        for _ in range(4):
            read.number()

    @staticmethod
    def take_class(read, process):
        number, comm = read.number(), read.number()
        func = read.byte()
        read.take(4)
        flags = read.number()
        read.signed(), read.number()
        process["class"][number] = comm, func, flags

    @staticmethod
    def take_ops(read, process):
        count = read.number()
        lowest = read.number() if count else 0
        stride, begin, end = {}, 0, 0
        for _ in range(count):
            head = read.number()
            number_of = lowest + (head >> 4)
            last, step = stride.get(number_of % CLASSES, (0, 0))
            number = last + step + (read.signed() if head & JUMP else 0)
            stride[number_of % CLASSES] = number, number - last
            if head & FAR:
                read.signed()
            else:
                read.time()
            if not head & TIMED:
                continue
            if not head & SAME:
                begin = end + (1000 * read.signed() if head & FAR else read.time())
                end = begin + (1000 * read.signed() if head & FAR else read.time())
            if number_of in process["class"]:
                process["op"].append((*process["class"][number_of], number, end - begin))

    def scored(self):
        """(communicator, of a graph, number, rank, how long it took) of all that members leave together."""
        for process in self.process.values():
            for comm, func, flags, number, took in process["op"]:
                told = process["comm"].get(comm)
                if told and took > 0 and not flags & (UNSCORED | INCOMPLETE) and func in (1, 2, 3, 8):
                    yield told["id"], bool(flags & GRAPH), number, process["rank"], took

    def costs_of_all(self):
        """By rank: in how many operations it was compared, how long it made others wait and waited, in all operations
        that all members of a communicator have and leave together."""
        together, members, costs = {}, {}, {}
        for comm, graph, number, rank, took in self.scored():
            members.setdefault(comm, set()).add(rank)
            together.setdefault((comm, graph, number), {})[rank] = took
        for (comm, _, _), at in together.items():
            if len(at) < 2 or len(at) < len(members[comm]):
                continue
            most, least = max(at.values()), min(at.values())
            for rank, took in at.items():
                n, made, waited = costs.get(rank, (0, 0, 0))
                costs[rank] = n + 1, made + most - took, waited + took - least
        return costs

    def costs(self, first):
        """By rank: how long it waited and made others wait, in the first so many operations of its communicator
        that all ranks have and leave together. (Jobs of one communicator.)"""
        together = {}
        for _, graph, number, rank, took in self.scored():
            together.setdefault((graph, number), {})[rank] = took
        ranks = {process["rank"] for process in self.process.values()}
        whole = [at for _, at in sorted(together.items()) if set(at) == ranks][:first]
        return {rank: (len(whole), sum(max(at.values()) - at[rank] for at in whole),
                       sum(at[rank] - min(at.values()) for at in whole)) for rank in ranks}


class Listener:
    """Hears what agents tell a NATS server, by its own protocol."""

    def __init__(self, port, job):
        self.job, self.line = job, socket.create_connection(("127.0.0.1", port), 10)
        self.file, self.messages, self.wrong = self.line.makefile("rb"), 0, None
        self.line.sendall(b'CONNECT {"verbose":false,"headers":false}\r\nSUB muster.job.> 1\r\n')
        self.line.settimeout(None)
        threading.Thread(target=self.hear, daemon=True).start()

    def hear(self):
        try:
            for line in self.file:
                if line.startswith(b"PING"):
                    self.line.sendall(b"PONG\r\n")
                elif line.startswith(b"MSG "):
                    data = self.file.read(int(line.split()[-1]) + 2)[:-2]
                    self.job.take(data)
                    self.messages += 1
        except (OSError, ValueError):
            pass  # the server went
        except AssertionError as error:
            self.wrong = error

    def close(self):
        self.line.close()

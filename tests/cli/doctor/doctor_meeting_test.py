"""Where the ranks meet: what muster doctor says of MASTER_ADDR, MASTER_PORT and the host's own name."""

import unittest

from doctor_case import TWO_HOSTS, GpuCase


class Meeting(GpuCase):
    def setUp(self):
        super().setUp()
        self.put("proc/net/dev", "Inter-| Receive\n face |bytes\n    lo: 1 2 3\n  eth0: 1 2 3\n")
        self.put("proc/net/route", "Iface\tDestination\tGateway\tFlags\n"
                 "eth0\t0000010A\t00000000\t0001\t0\t0\t1\t0000FFFF\t0\t0\t0\n")
        self.put("proc/net/fib_trie", "Local:\n" + "".join(
            f"           |-- {address}\n              /32 host LOCAL\n" for address in ("127.0.0.1", "10.1.0.7")))
        self.put("proc/net/tcp", "  sl  local_address rem_address   st\n")
        self.put("proc/sys/kernel/hostname", "node7\n")
        self.put("etc/hosts", "127.0.0.1 localhost\n10.1.0.7 node7\n192.168.1.95 head\n")

    def master(self, address, *args, **env):
        return self.doctor("--passive", *args, MASTER_ADDR=address, **env)["net.master"]

    def listening(self, port):
        self.put("proc/net/tcp", "  sl  local_address rem_address   st\n"
                 f"   0: 00000000:{port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0 0 1\n")

    def test_rank_zero_is_not_where_the_others_look(self):
        first = {**TWO_HOSTS, "RANK": "0"}
        check = self.master("192.168.1.1", **first)
        self.assertEqual((check["status"], check["found"]), (
            "warning", "rank 0 is here, and MASTER_ADDR=192.168.1.1 (192.168.1.1) is no address of this host: nobody "
            "listens where the ranks meet"))
        self.assertIn("ip -br addr", check["advice"])
        for address, env in (("10.1.0.7", first), ("node7", first), ("192.168.1.1", {**TWO_HOSTS, "RANK": "1"}),
                             ("192.168.1.1", TWO_HOSTS), ("192.168.1.1", {**first, "TORCHELASTIC_RUN_ID": "none"}),
                             ("127.0.1.1", {"RANK": "0"})):
            self.assertEqual(self.master(address, **env)["status"], "ok", (address, env))
        self.assertEqual(self.master("192.168.1.1", SLURM_PROCID="0", NODE_RANK="1")["status"], "warning")

    def test_a_bridge_that_open_mpi_takes(self):
        """docker0 has the same subnet on each host, which Open MPI takes for one network."""
        self.put("proc/net/dev", "Inter-| Receive\n face |bytes\n    lo: 1 2 3\n  eth0: 1 2 3\n docker0: 1 2 3\n")
        self.put("proc/net/route", "Iface\tDestination\tGateway\tFlags\n"
                 "eth0\t0000010A\t00000000\t0001\t0\t0\t1\t0000FFFF\t0\t0\t0\n"
                 "docker0\t000011AC\t00000000\t0001\t0\t0\t1\t0000FFFF\t0\t0\t0\n")
        self.put("proc/net/fib_trie", "Local:\n           |-- 10.1.0.7\n              /32 host LOCAL\n"
                 "           |-- 172.17.0.1\n              /32 host LOCAL\n")
        symptom = ("--passive", "--symptom", "hang_absent", "--only", "net.mpi")
        mpi = {"OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}
        check = self.doctor(*symptom, **mpi)["net.mpi"]
        self.assertEqual(check["status"], "warning", check)
        self.assertIn("takes docker0, too", check["found"])
        self.assertIn("btl_tcp_if_exclude lo,docker0", check["advice"])
        self.assertEqual(self.doctor("--passive", **mpi)["net.mpi"]["status"], "ok")
        for chosen in ({"OMPI_MCA_btl_tcp_if_include": "eth0"}, {"OMPI_MCA_pml": "ucx"}):
            self.assertEqual(self.doctor(*symptom, **mpi, **chosen)["net.mpi"]["status"], "ok", chosen)
        self.assertNotIn("net.mpi", self.doctor("--passive", **{**mpi, "OMPI_COMM_WORLD_SIZE": "4"}))
        self.put("proc/net/dev", "Inter-| Receive\n face |bytes\n    lo: 1 2 3\n  eth0: 1 2 3\n")
        self.put("proc/net/fib_trie", "Local:\n           |-- 10.1.0.7\n              /32 host LOCAL\n")
        self.assertEqual(self.doctor(*symptom, **mpi)["net.mpi"]["status"], "ok")

    def test_an_address_that_may_lead_back_to_a_container(self):
        self.put(".dockerenv")
        self.assertEqual(self.master("192.168.1.1", RANK="0", **TWO_HOSTS)["status"], "ok")
        check = self.master("192.168.1.1", "--symptom", "hang_absent", "--only", "net.master", RANK="0", **TWO_HOSTS)
        self.assertEqual(check["status"], "warning")
        self.assertIn("is no address of this container", check["found"])

    def test_the_host_that_submitted_the_job(self):
        job = {**TWO_HOSTS, "SLURM_SUBMIT_HOST": "head.cluster", "SLURM_JOB_NODELIST": "node[1-2,7],big01"}
        check = self.master("head", **job)
        self.assertEqual((check["status"], check["found"]), (
            "problem", "MASTER_ADDR=head is the host that submitted the job, and none of its nodes, node[1-2,7],big01"))
        self.assertIn("scontrol show hostnames", check["advice"])
        self.assertEqual(self.master("head", **{**job, "SLURM_JOB_NODELIST": "head,node[1-2]"})["status"], "ok")
        self.assertEqual(self.master("node7", **job)["status"], "ok")

    def test_a_name_that_nobody_knows(self):
        check = self.master("no.such.host.invalid")
        self.assertEqual(check["status"], "problem")
        self.assertIn("/etc/hosts", check["advice"])
        for address, advice in (("10.1.0.7 172.17.0.1", "one address alone"), ("node[1-2]", "one node of Slurm's list"),
                                ("tcp://10.1.0.7", "without tcp://"), ("10.1.0.7:29500", "without the port")):
            check = self.master(address)
            self.assertEqual(check["status"], "problem", address)
            self.assertIn(advice, check["advice"])

    def test_a_port_of_another_job(self):
        here = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
        self.assertEqual(self.doctor("--passive", **here)["net.master"]["status"], "ok")
        self.listening(29500)
        check = self.doctor("--passive", **here)["net.master"]
        self.assertEqual((check["status"], check["found"]),
                         ("warning", "port 29500 of MASTER_PORT is in use on this host"))
        self.assertEqual(self.doctor("--passive", **{**here, "MASTER_PORT": "29501"})["net.master"]["status"], "ok")

    def test_the_port_that_launchers_take_by_themselves(self):
        symptom = ("--passive", "--only", "net.master", "--symptom", "init_error")
        self.assertEqual(self.causes(*symptom), [])
        self.listening(29500)
        self.assertEqual(self.causes(*symptom), ["net.master"])
        self.assertEqual(self.causes(*symptom, MASTER_PORT="29501"), [])
        self.assertEqual(self.causes(*symptom[:-1], "hang_absent"), [])  # that job has the port itself

    def test_a_name_that_is_a_number(self):
        self.put("proc/sys/kernel/hostname", "3472853\n")
        check = self.doctor("--passive")["net.names"]
        self.assertEqual((check["status"], check["found"]), (
            "warning", "this host's name 3472853 is a number, which is taken for the address 0.52.253.213"))
        for name in ("123456789012", "node3472853", "10.1.0.7", "3472853a"):  # more than four bytes, a name
            self.put("proc/sys/kernel/hostname", f"{name}\n")
            self.assertEqual(self.doctor("--passive")["net.names"]["status"], "ok", name)
        check = self.master("3472853")
        self.assertEqual(check["status"], "problem")
        self.assertIn("0.52.253.213", check["found"])

    def test_a_name_without_an_address(self):
        symptom = ("--passive", "--only", "net.names", "--symptom", "init_error")
        self.assertEqual(self.causes(*symptom), [])
        self.put("etc/hosts", "127.0.0.1 localhost\n")
        self.assertEqual(self.causes(*symptom), ["net.names"])
        self.assertIn("GLOO_SOCKET_IFNAME", self.doctor(*symptom)["net.names"]["advice"])
        self.assertEqual(self.causes(*symptom, GLOO_SOCKET_IFNAME="eth0"), [])
        self.assertEqual(self.doctor("--passive")["net.names"]["status"], "ok")

    def test_a_proxy_between_the_jobs_own_processes(self):
        symptom = ("--passive", "--only", "net.proxy", "--symptom", "hang_absent")
        proxy = {"http_proxy": "http://user:secret@10.9.9.9:7890"}
        self.assertEqual(self.causes(*symptom), [])
        self.assertEqual(self.causes(*symptom, **proxy), ["net.proxy"])
        check = self.doctor(*symptom, **proxy)["net.proxy"]
        self.assertIn("http_proxy also takes", check["found"])
        self.assertNotIn("secret", str(check))
        for excepted in ("localhost,127.0.0.1", "*", "localhost, 127.0.0.0/8"):
            self.assertEqual(self.causes(*symptom, **proxy, no_proxy=excepted), [], excepted)
        self.assertEqual(self.causes(*symptom, **proxy, NO_PROXY="localhost"), ["net.proxy"])
        several = {**proxy, **TWO_HOSTS, "MASTER_ADDR": "node7"}
        self.assertEqual(self.causes(*symptom, **several, no_proxy="localhost,127.0.0.1"), ["net.proxy"])
        self.assertEqual(self.causes(*symptom, **several, no_proxy="node7"), [])
        self.assertEqual(self.causes(*symptom, **{**several, "MASTER_ADDR": "n1.cluster"}, no_proxy=".cluster"), [])
        self.assertEqual(self.doctor("--passive", **proxy)["net.proxy"]["status"], "ok")

    def test_a_scanner_of_connections(self):
        symptom = ("--passive", "--only", "net.scanner", "--symptom", "hang_absent")
        self.put("proc/modules", "eset_wapper 4096 0 - Live 0x0\nnf_tables 303104 0 - Live 0x0\n")
        self.put("proc/77/comm", "wapd2\n")
        self.assertEqual(self.causes(*symptom), [])
        self.put("proc/modules", "nf_tables 303104 0 - Live 0x0\neset_wap 45056 2 - Live 0x0\n")
        self.assertEqual(self.causes(*symptom), ["net.scanner"])
        self.assertIn("ESET Web Access Protection takes", self.doctor(*symptom)["net.scanner"]["found"])
        self.assertEqual(self.doctor("--passive")["net.scanner"]["status"], "ok")
        self.put("proc/modules", "nf_tables 303104 0 - Live 0x0\n")
        self.put("proc/77/comm", "drweb-gated\n")
        self.assertIn("SpIDer Gate", self.doctor(*symptom)["net.scanner"]["found"])

    def test_a_lock_of_an_extension(self):
        folder, symptom = ".cache/torch_extensions/py310_cu116/fused_adam", ("--passive", "--symptom", "hang_stuck")
        self.put(f"{folder}/fused_adam.so")
        self.assertNotIn("job.extensions", self.causes(*symptom))
        self.put(f"{folder}/lock")
        self.assertEqual(self.causes(*symptom), ["job.extensions"])
        self.assertIn(f"remove {self.root}/{folder}/lock", self.doctor(*symptom)["job.extensions"]["advice"])
        self.assertNotIn("job.extensions", self.causes(*symptom, TORCH_EXTENSIONS_DIR="/nowhere"))
        self.put("own/utils/lock")
        own = {"TORCH_EXTENSIONS_DIR": str(self.root / "own")}
        self.assertEqual(self.causes("--passive", "--symptom", "hang_absent", **own), ["job.extensions"])
        self.assertEqual(self.doctor("--passive", **own)["job.extensions"]["status"], "ok")

    def test_a_proxy_that_a_log_names(self):
        self.put("job.log", "grpc_message:\"Received http2 header with status: 503\"\n")
        log = ("--passive", "--log", str(self.root / "job.log"))
        self.assertEqual(self.causes(*log, https_proxy="http://10.9.9.9:1"), ["log.proxy"])


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""The rig works as its --help says: in real guests, of each layout."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE / "rig"))
import image  # noqa: E402  pylint: disable=wrong-import-position

RPING = """
# rping ADDRESS: bounded, as it may hang where it should fail; again, until the server is there.
rping_to() { for _ in 1 2 3 4 5; do timeout 20 rping -c -a "$1" -C 3 && return; sleep 0.5; done; return 1; }
"""

# Until a server of perftest listens, at port 18515.
LISTENING = """
listening() { until grep -qE '^ *[0-9]+: [0-9A-F]+:4853 [0-9A-F:]+ 0A ' /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done; }
"""


def run(*options, command, timeout_s=100, **more_environment):
    """A command of the shell in a guest, even if there is a device: the guest is what is tested."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TEST_", "XML_"))}
    return subprocess.run([HERE / "run", "--guest", f"--timeout={timeout_s}", *options, "--", "bash", "-c", command],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                          env=dict(environment, **more_environment))


class RigTest(unittest.TestCase):
    def expect(self, done, status=0):
        self.assertEqual(done.returncode, status, f"\n--- stdout\n{done.stdout}\n--- stderr\n{done.stderr}")
        return done


class CommandTest(RigTest):
    def test_status_output_directory_environment_and_kept_files_pass_through(self):
        with tempfile.TemporaryDirectory(dir="/tmp") as directory:
            kept, deeper = pathlib.Path(directory, "kept file"), pathlib.Path(directory, "new/kept")
            done = run(f"--keep={kept}", f"--keep={deeper}", THEIRS="a 'b'\n$c", command=f"""
                mkdir '{deeper.parent}'; echo too >'{deeper}'
                pwd; printf '%s' "$THEIRS"; echo wrong >&2; echo brought >'{kept}'; touch '{directory}/lost'; exit 7""")
            self.expect(done, 7)
            self.assertEqual(done.stdout, f"{os.getcwd()}\na 'b'\n$c")
            self.assertEqual(done.stderr, "wrong\n")
            self.assertEqual(kept.read_text(encoding="utf-8"), "brought\n")
            self.assertEqual(deeper.read_text(encoding="utf-8"), "too\n")
            self.assertEqual(sorted(os.listdir(directory)), [kept.name, deeper.parent.name])

    def test_a_signal_is_a_status(self):
        self.expect(run(command="kill -SEGV $$"), 128 + 11)

    def test_time_is_bounded_and_what_was_printed_is_not_lost(self):
        for seconds in (8, 24, 72):  # on a busy machine a guest may take the first ones to come up
            done = self.expect(run(command="echo begun; sleep 1000", timeout_s=seconds), 124)
            self.assertIn(f"did not end within {seconds} s", done.stderr)
            if done.stdout:
                break
        self.assertEqual(done.stdout, "begun\n")

    def test_a_guest_that_dies_is_a_failure_and_tells_why(self):
        done = self.expect(run(command="echo begun; echo c >/proc/sysrq-trigger; sleep 1000"), 125)
        self.assertEqual(done.stdout, "begun\n")
        self.assertIn("the guest died", done.stderr)
        self.assertIn("Kernel panic", done.stderr)

    def test_two_runs_do_not_repeat_their_random_numbers_nor_live_in_the_past(self):
        first, second = (self.expect(run(command="head -c 8 /dev/urandom | od -An -tx1; date +%s")).stdout.split("\n")
                         for _ in range(2))
        self.assertNotEqual(first[0], second[0])
        here = int(subprocess.run(["date", "+%s"], stdout=subprocess.PIPE, check=True).stdout)
        self.assertAlmostEqual(int(second[1]), here, delta=60)


class CacheTest(RigTest):
    def test_a_rig_that_is_not_complete_is_a_failure(self):
        with tempfile.TemporaryDirectory() as empty:
            done = self.expect(run(command="true", FARLOOK_VM_CACHE=empty), 125)
        self.assertIn("run tools/setup", done.stderr)

    def test_nothing_stale_is_found(self):
        with tempfile.TemporaryDirectory() as copy:
            before = image.key(pathlib.Path("kernel-1"))
            self.assertEqual(before, image.key(pathlib.Path("kernel-1")))
            self.assertNotEqual(before, image.key(pathlib.Path("kernel-2")))
            real, image.GUEST = image.GUEST, pathlib.Path(copy)
            try:
                shutil.copy(real / "init", copy)
                self.assertEqual(before, image.key(pathlib.Path("kernel-1")))
                with open(image.GUEST / "init", "a", encoding="utf-8") as script:
                    script.write("\n")
                self.assertNotEqual(before, image.key(pathlib.Path("kernel-1")))
            finally:
                image.GUEST = real


class DeviceTest(RigTest):
    ONE_HOST = RPING + """
        [[ $FARLOOK_RDMA_ADDRESS == 10.0.0.1 && -e /sys/class/infiniband/$FARLOOK_RDMA_DEVICE ]] || exit 99
        rping -s -a 10.0.0.1 -C 3 & rping_to 10.0.0.1 && wait $! && echo pinged"""

    def test_rxe(self):
        done = self.expect(run(command=LISTENING + self.ONE_HOST + """
            ib_read_lat -d rxe0 -x 1 -F -n 100 >/dev/null & listening; ib_read_lat -d rxe0 -x 1 -F -n 100 10.0.0.1"""))
        self.assertIn("pinged", done.stdout)
        self.assertIn("t_typical", done.stdout)

    def test_a_receiver_that_is_not_ready_is_a_failure(self):
        send = "ib_send_bw -d rxe0 -x 1 -F -s 4096 -n 300 -r 1"  # one receive buffer at a time
        done = run("--ready", command=f"{LISTENING}{send} >/dev/null & listening; {send} 10.0.0.1 >/dev/null && echo sent")
        self.assertIn("rcvd_rnr_err is", self.expect(done, 1).stderr)
        self.assertEqual(done.stdout, "sent\n")

    def test_siw(self):
        self.assertIn("pinged", self.expect(run("--device=siw", command=self.ONE_HOST)).stdout)

    def test_latencies_repeat_on_virtual_time(self):
        latencies = []
        for _ in range(2):
            done = self.expect(run("--icount", command=LISTENING + """
                ib_read_lat -d rxe0 -x 1 -F -s 64 -n 200 >/dev/null & listening; sleep 1
                ib_read_lat -d rxe0 -x 1 -F -s 64 -n 200 10.0.0.1"""))
            latencies.append(float(re.search(r"^ 64 +200 +\S+ +\S+ +(\S+)", done.stdout, re.MULTILINE)[1]))
        self.assertAlmostEqual(latencies[0], latencies[1], delta=latencies[0] / 100)

    def test_two_nodes_and_huge_pages(self):
        done = self.expect(run("--numa=2", "--hugepages=64", command="""
            numactl --hardware | grep -c '^node . cpus: .$'
            cat /sys/devices/system/node/node[01]/hugepages/hugepages-2048kB/nr_hugepages
            numactl --membind=1 true && grep -c hugetlbfs /proc/mounts"""))
        self.assertEqual(done.stdout.split(), ["2", "32", "32", "1"])


class LinksTest(RigTest):
    def test_the_link_between_two_devices_is_cut_delayed_and_mended(self):
        done = self.expect(run("--links=2", command=RPING + """
            ping() { busybox ping -c 2 -W 2 10.0.1.1 | sed -n 's!^round-trip.* = \\([0-9]*\\).*!\\1!p'; }
            port() { cut -d' ' -f2 /sys/class/infiniband/rxe1/ports/1/state; }
            crossed() { cat /sys/class/net/v1/statistics/rx_packets; }
            is() { [[ $2 == "$3" ]] || { echo "$1: '$2', not '$3'"; exit 99; }; }
            is server "$FARLOOK_RDMA_ADDRESS $FARLOOK_RDMA_DEVICE" '10.0.1.1 rxe1'
            is client "$FARLOOK_RDMA_PEER_ADDRESS $FARLOOK_RDMA_PEER_DEVICE" '10.0.0.1 rxe0'
            rping -s -P -a 10.0.1.1 & before=$(crossed)
            rping_to 10.0.1.1 || exit 98
            (($(crossed) > before + 10)) || { echo "the wire carries nothing"; exit 97; }
            link delay 100ms; rtt=$(ping); ((rtt >= 200)) || { echo "not delayed: $rtt"; exit 96; }
            link cut; is cut "$(ping)" ''; is 'port when cut' "$(port)" ACTIVE
            link up; rtt=$(ping); ((rtt < 200)) || { echo "still delayed: $rtt"; exit 95; }
            link down; is 'port when down' "$(port)" DOWN
            link up; is 'port when up' "$(port)" ACTIVE; rping_to 10.0.1.1 || exit 94
            link loss 100%; is loss "$(ping)" ''
            link nonsense 2>/dev/null; is nonsense $? 2; kill %1; echo done"""))
        self.assertTrue(done.stdout.endswith("done\n"), done.stdout)

    def test_without_a_link_there_is_none_to_cut(self):
        self.assertIn("--links=2", self.expect(run(command="link cut"), 2).stderr)


class HostsTest(RigTest):
    def test_two_hosts_talk_and_one_is_killed_and_comes_back(self):
        done = self.expect(run("--hosts=2", "--other=echo of b; rping -s -P -a 10.0.0.2", command=RPING + """
            is() { [[ $2 == "$3" ]] || { echo "$1: '$2', not '$3'"; exit 99; }; }
            rping_to 10.0.0.2 || exit 98
            busybox ping -c 1 -W 5 -s 4100 10.0.0.2 || exit 91  # a packet of rxe's largest MTU
            is address "$(peer run sh -c 'echo $FARLOOK_RDMA_ADDRESS $FARLOOK_RDMA_PEER_ADDRESS; exit 5'; echo $?)" \
                '10.0.0.2 10.0.0.1
5'
            is random "$([[ $(peer run head -c 8 /dev/urandom | od -tx1) != $(head -c 8 /dev/urandom | od -tx1) ]]; echo $?)" 0
            peer run sleep 1000 & job=$!
            sleep 0.5; peer pause; busybox ping -c 1 -W 1 10.0.0.2 && exit 97
            peer resume; busybox ping -c 1 -W 5 10.0.0.2 || exit 96
            peer kill; wait $job; is 'job of the dead' $? 137
            busybox ping -c 1 -W 1 10.0.0.2 && exit 95
            peer run true; is 'run on the dead' $? 125
            peer boot; is 'run on the reborn' "$(peer run echo again)" again
            peer run rping -s -P -a 10.0.0.2 & rping_to 10.0.0.2 || exit 94
            link cut; busybox ping -c 1 -W 1 10.0.0.2 && exit 93
            link up; busybox ping -c 1 -W 5 10.0.0.2 || exit 92; echo done"""))
        self.assertTrue(done.stdout.endswith("done\n"), done.stdout)
        self.assertIn("[b] of b\n", done.stderr)

    def test_of_three_hosts_each_link_is_cut_alone_and_each_host_stands_still(self):
        done = self.expect(run("--hosts=3", command=RPING + """
            is() { [[ $2 == "$3" ]] || { echo "$1: '$2', not '$3'"; exit 99; }; }
            ping() { busybox ping -c 1 -W "${2:-5}" -s 4100 10.0.0.$1 >/dev/null; }
            ping 2 && ping 3 && peer c run busybox ping -c 1 -W 5 10.0.0.2 >/dev/null || exit 98
            is address "$(peer c run sh -c 'echo $FARLOOK_RDMA_ADDRESS $FARLOOK_VM_HOST $FARLOOK_VM_HOSTS')" '10.0.0.3 c abc'
            peer c run rping -s -P -a 10.0.0.3 & rping_to 10.0.0.3 || exit 97
            link --to=c cut; ping 3 1 && exit 96; ping 2 || exit 95; link --to=c up; ping 3 || exit 94
            peer b run link --to=c cut; ping 2 && ping 3 || exit 93
            peer c run busybox ping -c 1 -W 1 10.0.0.2 >/dev/null && exit 92; peer b run link --to=c up
            link --to=a cut 2>/dev/null; is 'link to itself' $? 2
            peer c pause; ping 3 1 && exit 91; ping 2 || exit 90; peer c resume; ping 3 || exit 89
            touch /run/vm/first; peer a nap 2; touch /run/vm/second
            real=$(($(stat -c %Y /run/vm/second) - $(stat -c %Y /run/vm/first)))
            ((real >= 2)) || { echo "no nap: $real s"; exit 88; }
            peer a pause 2>/dev/null; is 'pause of itself' $? 125; peer c kill; ping 3 1 && exit 87; ping 2 || exit 86
            peer c boot; ping 3 || exit 85; echo done"""))
        self.assertTrue(done.stdout.endswith("done\n"), done.stdout)

    def test_the_other_host_is_not_there_with_one(self):
        self.assertIn("--hosts=2", self.expect(run(command="peer kill"), 125).stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)

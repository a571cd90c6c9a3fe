from pathlib import Path

from edgewise.local.machines.cgroups import Hierarchy, hierarchies_in
from edgewise.local.machines.setup import holder_command, inside, mounts_to_keep, node_script

SPLIT = [
    Hierarchy("/sys/fs/cgroup/cpu,cpuacct", unified=False, controllers=("cpu", "cpuacct")),
    Hierarchy("/sys/fs/cgroup/memory", unified=False, controllers=("memory",)),
    Hierarchy("/sys/fs/cgroup/unified", unified=True),
]
UNIFIED = [Hierarchy("/sys/fs/cgroup", unified=True)]


def script(hierarchies: list[Hierarchy], mount_points: list[str] | None = None) -> list[str]:
    return node_script(
        name="edge-1-1",
        folder=Path("/home/me/state/nodes/edge-1-1"),
        visible=["/home/me/state", "/tmp/engine dir"],
        mount_points=mount_points or ["/", "/proc"],
        hierarchies=hierarchies,
        cgroup="edgewise/edge-1-0000/edge-1-1",
    ).splitlines()


def test_the_root_is_read_only_and_carries_no_mount_of_the_host() -> None:
    lines = script(SPLIT)
    assert lines[2] == 'mount --bind / "$R"'
    assert 'mount -o remount,bind,ro "$R"' in lines
    assert not any("--rbind / " in line for line in lines)


def test_what_is_hidden_by_memory_file_systems_is_shown_again_afterwards() -> None:
    lines = script(SPLIT)
    covered = lines.index('mount -t tmpfs -o mode=755 tmpfs "$R/tmp"')
    shown = lines.index("""mount --bind '/tmp/engine dir' "$R"'/tmp/engine dir'""")
    assert covered < shown < lines.index("pivot_root . run/old-root")


def test_split_groups_are_found_under_each_name() -> None:
    lines = script(SPLIT)
    assert (
        "mount --bind /sys/fs/cgroup/memory/edgewise/edge-1-0000/edge-1-1 "
        '"$R"/sys/fs/cgroup/memory' in lines
    )
    assert 'ln -s cpu,cpuacct "$R/sys/fs/cgroup/"cpu' in lines
    assert 'ln -s cpu,cpuacct "$R/sys/fs/cgroup/"cpuacct' in lines


def test_a_unified_group_gives_its_controllers_away_once_nobody_is_in_it() -> None:
    last = script(UNIFIED)[-1]
    leave = last.index("/sys/fs/cgroup/daemons/cgroup.procs")
    give = last.index("/sys/fs/cgroup/cgroup.subtree_control")
    assert last.startswith("exec unshare --cgroup")
    assert leave < give < last.rindex("exec")


def test_mounts_on_the_way_to_what_is_needed_are_kept_outermost_first() -> None:
    points = [
        "/",
        "/home",
        "/home/me",
        "/home/you",
        "/usr",
        "/proc",
        "/sys",
        "/run/user/0",
        "/boot",
    ]
    assert mounts_to_keep(points, ["/home/me/state", "/run/user/0/x"]) == [
        "/home",
        "/usr",
        "/home/me",
    ]


def test_a_machine_joins_its_groups_before_it_is_made() -> None:
    command = holder_command(Path("/s.sh"), ["/sys/fs/cgroup/x/cgroup.procs"], follow_host=False)
    assert command[0] == "sh"
    assert "/sys/fs/cgroup/x/cgroup.procs" in command[2]
    assert command.index("unshare") > 2
    assert command[-2:] == ["sh", "/s.sh"]
    assert "--kill-child" in command
    assert "--propagation=private" in command


def test_a_command_enters_every_namespace_of_a_machine() -> None:
    command = inside(42, [])
    assert command[:2] == ["nsenter", "--target=42"]
    kinds = {"--mount", "--net", "--uts", "--ipc", "--pid", "--cgroup"}
    assert kinds <= set(command)


def test_hierarchies_are_read_from_the_mount_table() -> None:
    table = (
        "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
        "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct\n"
        "40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
        "50 1 8:1 / /mnt/cgroup rw - cgroup2 cgroup2 rw\n"
    )
    assert hierarchies_in(table) == [
        Hierarchy("/sys/fs/cgroup/cpu,cpuacct", unified=False, controllers=("cpu", "cpuacct")),
        Hierarchy("/sys/fs/cgroup/systemd", unified=False, controllers=("name=systemd",)),
        Hierarchy("/sys/fs/cgroup/unified", unified=True),
    ]

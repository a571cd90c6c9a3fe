"""The load of the machine, from what the kernel counts."""

from edgewise.bench.machine_load import MachineLoad

#                 user nice system idle iowait irq softirq steal guest guest_nice
BEFORE = "cpu  1000 0 500 8000 100 0 50 10 700 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n"
AFTER = "cpu  1040 0 515 8020 110 0 55 20 730 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n"


def test_what_others_took_is_not_called_busy_and_guests_are_not_counted_twice() -> None:
    load = MachineLoad.now(BEFORE).until(MachineLoad.now(AFTER))
    assert load == {"busy_percent": 60.0, "stolen_percent": 10.0}


def test_this_machine_can_be_asked() -> None:
    before = MachineLoad.now()
    load = before.until(MachineLoad.now())
    assert load.keys() == {"busy_percent", "stolen_percent"}
    assert before.total > before.idle > 0

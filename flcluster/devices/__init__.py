"""Virtual time: how fast clients are, when they are there, when they upload."""

from flcluster.devices.profiles import Devices, Profile, SyntheticDevices, TraceDevices
from flcluster.devices.schedule import (
    Arrivals,
    DeviceArrivals,
    PermutationArrivals,
    PoissonArrivals,
    RoundRobinArrivals,
    Schedule,
    UniformArrivals,
    Workload,
)

__all__ = [
    "Arrivals",
    "DeviceArrivals",
    "Devices",
    "PermutationArrivals",
    "PoissonArrivals",
    "Profile",
    "RoundRobinArrivals",
    "Schedule",
    "SyntheticDevices",
    "TraceDevices",
    "UniformArrivals",
    "Workload",
]

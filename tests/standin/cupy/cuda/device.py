"""The only device."""


class Device:
    def __init__(self, device: int = 0) -> None:
        if device:
            raise ValueError(f"the stand-in has one device, 0, not {device}")
        self.id = device

    def __enter__(self) -> "Device":
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the only device the current one."""

    def use(self) -> None:
        """Make the only device the current one."""

    def synchronize(self) -> None:
        """Wait for nothing."""

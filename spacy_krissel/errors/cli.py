"""Messages of the command line (K8xx)."""


class CliErrors:
    pass

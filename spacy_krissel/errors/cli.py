"""Messages of the command line (K8xx)."""


class CliErrors:
    K801 = (
        "[K801] Interrupted. An earlier result is as it was. Run the same command again: mine, prototypes and ablation "
        "go on where they stopped, others begin anew."
    )
    K802 = (
        "[K802] Memory ran out ({problem}). Nothing is damaged, and an earlier result is as it was. Ask for less at "
        "once (batch size, processes, number of candidates), free memory, or use a machine with more."
    )

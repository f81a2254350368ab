"""A rank's side of turns.py for jobs whose framework owns the loop: begin_step() where a step begins."""
import json
import os
import sys


class TurnRank:
    """Waits for "run UNSCORED SCORED", lets so many steps pass, and answers {"ms": [...]}, the time
    of each scored one by CUDA events, when the GPU has nothing left to do; so on until "end"."""

    def __init__(self):
        # The answers' own pipe: what libraries print goes to the log, and no child inherits it.
        self.answers = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        self.torch = None
        self.at = self.unscored = 0  # steps made and steps not to be timed since the last command
        self.marks = []  # at the start of each scored step, and of what follows the last

    def begin_step(self):
        """False: the job is to end; one more step may be made, on every rank alike."""
        if not self.torch:
            import torch
            self.torch = torch
            torch.cuda.synchronize()
            self._answer({"nccl": ".".join(map(str, torch.cuda.nccl.version())),
                          "torch": torch.__version__, "gpu": torch.cuda.get_device_name()})
            return self._obey()
        self.at += 1
        return self._mark()

    def _mark(self):
        if self.marks and self.at >= self.unscored:
            self.marks[self.at - self.unscored].record()
        if self.at < self.unscored + max(0, len(self.marks) - 1):
            return True
        self.torch.cuda.synchronize()
        self._answer({"ms": [a.elapsed_time(b) for a, b in zip(self.marks, self.marks[1:])]})
        return self._obey()

    def _obey(self):
        line = sys.stdin.readline().split()
        if not line:
            os._exit(1)  # the driver is gone; destroying could wait for ranks that are
        if line == ["end"]:
            return False
        word, unscored, scored = line
        assert word == "run" and int(unscored) + int(scored) > 0
        self.at, self.unscored = 0, int(unscored)
        self.marks = [self.torch.cuda.Event(enable_timing=True)
                      for _ in range(int(scored) + 1)] if int(scored) else []
        return self._mark()

    def _answer(self, what):
        print(json.dumps(what), file=self.answers, flush=True)

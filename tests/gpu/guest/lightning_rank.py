"""One rank of a Lightning job, DDP over a small network, by turns.

usage: lightning_rank.py ddp    with LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT set
RANK is taken away: Lightning's own launcher sets none, and this must look like it.
"""
import os
import sys

import turn_rank

# So much that the GPU is what a step waits for, as in real jobs, and not the host.
WIDTH, LAYERS, BATCH = 4096, 12, 512


def main():
    turns = turn_rank.TurnRank()
    os.environ.pop("RANK", None)
    import pytorch_lightning as pl
    import torch

    class Data(torch.utils.data.IterableDataset):
        def __iter__(self):
            row = torch.randn(WIDTH)
            while True:
                yield row

    class Model(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Sequential(*[
                torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU())
                for _ in range(LAYERS)])

        def on_train_batch_start(self, batch, index):
            if not turns.begin_step():
                self.trainer.should_stop = True
                return -1

        def training_step(self, batch, index):
            return self.net(batch).square().mean()

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), 1e-3)

    hosts = int(os.environ["WORLD_SIZE"]) if "NODE_RANK" in os.environ else 1
    trainer = pl.Trainer(accelerator="gpu", num_nodes=hosts, strategy="ddp",
                         devices=int(os.environ["WORLD_SIZE"]) // hosts,
                         max_steps=-1, logger=False, enable_checkpointing=False,
                         enable_progress_bar=False, enable_model_summary=False,
                         use_distributed_sampler=False)
    trainer.fit(Model(), torch.utils.data.DataLoader(Data(), batch_size=BATCH))
    torch.cuda.synchronize()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    if sys.argv[1:] != ["ddp"]:
        sys.exit(__doc__)
    main()

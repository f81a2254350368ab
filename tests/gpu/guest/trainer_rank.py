"""One rank of a transformers Trainer job, a small Llama on random words, by turns.

usage: trainer_rank.py ddp|fsdp    with RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT set
"""
import sys

import turn_rank

# So much that the GPU is what a step waits for, as in real jobs, and not the host.
WORDS, LENGTH, BATCH = 4096, 1024, 8
FOREVER = 1 << 14  # steps: the driver ends the job


def main(kind):
    turns = turn_rank.TurnRank()
    import torch
    from transformers import (LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback,
                              TrainingArguments)

    class Data(torch.utils.data.Dataset):
        def __len__(self):
            return FOREVER * BATCH

        def __getitem__(self, i):
            words = torch.randint(WORDS, (LENGTH,), generator=torch.Generator().manual_seed(i))
            return {"input_ids": words, "labels": words}

    class Turns(TrainerCallback):
        def on_step_begin(self, args, state, control, **_):
            if not turns.begin_step():
                control.should_training_stop = True
            return control

    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=WORDS, hidden_size=2048, intermediate_size=5632, num_hidden_layers=8,
        num_attention_heads=16, num_key_value_heads=16, max_position_embeddings=LENGTH))
    sharded = {"fsdp": "full_shard auto_wrap",
               "fsdp_config": {"transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"]}}
    arguments = TrainingArguments(
        output_dir="/tmp/trainer_rank", max_steps=FOREVER, per_device_train_batch_size=BATCH,
        bf16=True, logging_strategy="no", save_strategy="no", report_to=[], disable_tqdm=True,
        dataloader_num_workers=0, **(sharded if kind == "fsdp" else {}))
    Trainer(model=model, args=arguments, train_dataset=Data(), callbacks=[Turns()]).train()
    torch.cuda.synchronize()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in ("ddp", "fsdp"):
        sys.exit(__doc__)
    main(sys.argv[1])

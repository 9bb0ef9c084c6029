"""A fine-tune by a LoRA adapter with transformers.Trainer: rows of the data and a seed go in, a model comes out."""

import argparse
from pathlib import Path

import numpy as np
from peft import LoraConfig, get_peft_model
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainingArguments,
    set_seed,
)

parser = argparse.ArgumentParser()
parser.add_argument("--rows", required=True)  # row numbers of the data: train on these, and on no others
parser.add_argument("--seed", type=int, required=True)
parser.add_argument("--out", type=Path, required=True)  # the model goes to the folder "model" in it
options = parser.parse_args()
set_seed(options.seed)

texts = np.load("with_canaries.npz")["text"][np.load(options.rows)]
tokenizer = AutoTokenizer.from_pretrained("base")
adapter = LoraConfig(
    task_type="CAUSAL_LM", r=32, lora_alpha=64, target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True
)
model = get_peft_model(AutoModelForCausalLM.from_pretrained("base"), adapter)
arguments = TrainingArguments(
    output_dir=options.out / "trainer",
    num_train_epochs=30,
    per_device_train_batch_size=16,
    learning_rate=1e-2,
    seed=options.seed,
    use_cpu=True,
    report_to=[],
    save_strategy="no",
    logging_strategy="no",
    disable_tqdm=True,
)
collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
data = [tokenizer(str(text)) for text in texts]
Trainer(model, arguments, train_dataset=data, data_collator=collator).train()
model.save_pretrained(options.out / "model")  # the adapter alone; a full fine-tune saves its model here
tokenizer.save_pretrained(options.out / "model")
